#include "manta/torch/data_loader.h"

#include <ATen/CPUGeneratorImpl.h>
#include <torch/serialize/archive.h>
#include <torch/types.h>

#include <algorithm>
#include <numeric>

#include "manta/base/error_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train::detail {

std::vector<size_t> rows_of_epoch(size_t rows, int rank, int world_size, int64_t epoch,
                                  const DataLoaderOptions& options) {
  auto workers = static_cast<size_t>(world_size);
  std::vector<size_t> order(rows);
  if (options.shuffle) {
    auto generator = at::detail::createCPUGenerator(options.seed + static_cast<uint64_t>(epoch));
    torch::Tensor drawn =
        torch::randperm(static_cast<int64_t>(rows), generator, torch::TensorOptions(torch::kInt64));
    std::copy_n(drawn.const_data_ptr<int64_t>(), rows, order.begin());
  } else {
    std::iota(order.begin(), order.end(), size_t{0});
  }
  size_t each = options.drop_last ? rows / workers : (rows + workers - 1) / workers;
  std::vector<size_t> mine;
  for (size_t i = 0; i < each; ++i) {
    mine.push_back(order[(i * workers + static_cast<size_t>(rank)) % rows]);
  }
  return mine;
}

std::pair<int, int> rank_and_size() {
  const Session* session = Session::current_or_null();
  if (!session) return {0, 1};
  return {session->begin().rank, session->begin().world_size};
}

void check_loader(std::optional<size_t> rows, int world_size, const DataLoaderOptions& options) {
  auto fail = [](const std::string& why) {
    throw Error(ErrorKind::kInvalidArgument, "prepare_data_loader: " + why);
  };
  if (options.batch_size <= 0) {
    fail(manta::str("batch_size must be positive (was ", options.batch_size, ")"));
  }
  if (!rows) fail("the data set has no size; it must tell how many rows it has");
  if (*rows == 0) fail("the data set has no rows");
  if (options.drop_last && *rows < static_cast<size_t>(world_size)) {
    fail(manta::str("the data set has ", *rows, " rows, which is not one for each of ", world_size,
                    " workers; set drop_last = false or use fewer workers"));
  }
}

EpochSampler::EpochSampler(std::shared_ptr<const SampledEpoch> epoch) : epoch_(std::move(epoch)) {
  reset(std::nullopt);
}

void EpochSampler::reset(std::optional<size_t>) {
  rows_ =
      rows_of_epoch(epoch_->rows, epoch_->rank, epoch_->world_size, epoch_->epoch, epoch_->options);
  next_ = 0;
}

std::optional<std::vector<size_t>> EpochSampler::next(size_t batch_size) {
  if (next_ >= rows_.size()) return std::nullopt;
  size_t count = std::min(batch_size, rows_.size() - next_);
  auto begin = rows_.begin() + static_cast<std::ptrdiff_t>(next_);
  next_ += count;
  return std::vector<size_t>(begin, begin + static_cast<std::ptrdiff_t>(count));
}

void EpochSampler::save(torch::serialize::OutputArchive& archive) const {
  archive.write("next", torch::tensor(static_cast<int64_t>(next_)), true);
}

void EpochSampler::load(torch::serialize::InputArchive& archive) {
  torch::Tensor next = torch::empty({1}, torch::kInt64);
  archive.read("next", next, true);
  next_ = static_cast<size_t>(next.item<int64_t>());
}

}  // namespace manta::train::detail
