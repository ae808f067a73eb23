#include <algorithm>

#include "manta/base/error.h"
#include "manta/base/log.h"
#include "manta/data/step_internal.h"

namespace manta::data {
namespace {

// The smallest rest that is a step of its own.
int64_t smallest_rest(const StepRule& rule) {
  return std::max<int64_t>((rule.global_batch + 1) / 2, 2 * int64_t{rule.world_size});
}

}  // namespace

int64_t rows_to_look_at(const StepRule& rule) { return rule.global_batch + smallest_rest(rule); }

std::optional<Rows> next_step(const StepRule& rule, int64_t position, int64_t known, bool ended,
                              const std::string& dataset) {
  int64_t left = known - position;
  if (!ended && left < rows_to_look_at(rule)) {
    throw Error(ErrorKind::kInvalidArgument, "next_step was asked before enough rows were known");
  }
  if (left <= 0 && position > 0) return std::nullopt;
  if (rule.drop_last && position > 0 && left < rule.global_batch) return std::nullopt;
  if (left < rule.world_size && position > 0) {  // more workers than before go on at a short rest
    log_warning(str("data set '", dataset, "': the last ", left,
                    " rows of this epoch are left out: ", rule.world_size,
                    " workers cannot share them"));
    return std::nullopt;
  }
  if (left < rule.world_size) {
    throw Error(ErrorKind::kInvalidArgument,
                str("data set '", dataset, "' gives ", left, " rows, which is not one for each of ",
                    rule.world_size, " workers: use fewer workers, or check the filters"));
  }
  int64_t rest = left - rule.global_batch;
  if (rule.drop_last) {
    if (rest >= 0) return Rows{position, rule.global_batch};
    if (position > 0) return std::nullopt;
    throw Error(
        ErrorKind::kInvalidArgument,
        str("data set '", dataset, "' gives ", left, " rows, less than one global batch of ",
            rule.global_batch, ", and drop_last is set: use a smaller batch"));
  }
  if (rest >= smallest_rest(rule)) return Rows{position, rule.global_batch};
  return Rows{position, left};
}

Rows slice_of(const Rows& step, int rank, int world_size) {
  int64_t begin = step.rows * rank / world_size;
  int64_t end = step.rows * (rank + 1) / world_size;
  return {step.first_row + begin, end - begin};
}

}  // namespace manta::data
