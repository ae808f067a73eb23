#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/step_internal.h"

namespace manta::data {
namespace {

// Far above what fits into memory, far below what sums of row numbers may overflow.
constexpr int64_t kMaxGlobalBatch = int64_t{1} << 48;

[[noreturn]] void throw_invalid(const std::string& what) {
  throw Error(ErrorKind::kInvalidArgument, what);
}

}  // namespace

StepRule make_step_rule(int64_t batch_size, int64_t global_batch_size, bool drop_last,
                        int world_size, const std::string& dataset) {
  auto fail = [&](const auto&... why) {
    throw_invalid(str("iterating over data set '", dataset, "': ", why...));
  };
  if (batch_size <= 0) fail("batch_size must be positive (was ", batch_size, ")");
  if (global_batch_size < 0) {
    fail("global_batch_size must be positive, or 0 for batch_size rows a worker (was ",
         global_batch_size, ")");
  }
  if (batch_size > kMaxGlobalBatch / world_size || global_batch_size > kMaxGlobalBatch) {
    fail("steps of ", std::max(batch_size, global_batch_size), " rows are too large: at most ",
         kMaxGlobalBatch, " for all workers together");
  }
  if (global_batch_size == 0) {
    int64_t global_batch = batch_size * world_size;
    return {global_batch, std::max<int64_t>((global_batch + 1) / 2, 2 * int64_t{world_size}),
            world_size, drop_last};
  }
  int64_t smallest_step = drop_last ? global_batch_size : (global_batch_size + 1) / 2;
  if (smallest_step < world_size) {
    fail("a global_batch_size of ", global_batch_size, " makes steps of as few as ", smallest_step,
         " rows, which is not one for each of ", world_size,
         " workers: use a global_batch_size of at least ",
         drop_last ? world_size : 2 * world_size - 1, ", or at most ", smallest_step, " workers");
  }
  return {global_batch_size, (global_batch_size + 1) / 2, world_size, drop_last};
}

int64_t rows_to_look_at(const StepRule& rule) { return rule.global_batch + rule.smallest_rest; }

std::optional<Rows> next_step(const StepRule& rule, int64_t position, int64_t known, bool ended,
                              const std::string& dataset) {
  int64_t left = known - position;
  if (!ended && left < rows_to_look_at(rule)) {
    throw_invalid("next_step was asked before enough rows were known");
  }
  if (left <= 0 && position > 0) return std::nullopt;
  if (rule.drop_last && left < rule.global_batch) {
    if (position > 0) return std::nullopt;
    throw_invalid(str("data set '", dataset, "' gives ", left,
                      " rows, less than one global batch of ", rule.global_batch,
                      ", and drop_last is set: use a smaller batch"));
  }
  if (left < rule.world_size && position > 0) {
    throw_invalid(str("data set '", dataset, "' has ", left, " rows left behind row ", position,
                      " of this epoch, which is not one for each of ", rule.world_size,
                      " workers: go on with at most ", left, left == 1 ? " worker" : " workers"));
  }
  if (left < rule.world_size) {
    throw_invalid(str("data set '", dataset, "' gives ", left,
                      " rows, which is not one for each of ", rule.world_size,
                      " workers: use fewer workers, or check the filters"));
  }
  bool rest_is_a_step = left - rule.global_batch >= rule.smallest_rest;
  if (rule.drop_last || rest_is_a_step) return Rows{position, rule.global_batch};
  return Rows{position, left};
}

Rows slice_of(const Rows& step, int rank, int world_size) {
  int64_t begin = step.rows * rank / world_size;
  int64_t end = step.rows * (rank + 1) / world_size;
  return {step.first_row + begin, end - begin};
}

}  // namespace manta::data
