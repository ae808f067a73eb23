#pragma once

#include <torch/data/dataloader.h>
#include <torch/data/samplers/base.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

namespace manta::train {

struct DataLoaderOptions {
  int64_t batch_size = 32;  ///< Rows of each worker's batches.
  bool shuffle = true;      ///< Another order each epoch, if `set_epoch` is called.
  uint64_t seed = 0;        ///< Of the order; the same on every worker.
  /// All workers take the same number of rows. If the rows do not divide evenly: false repeats the
  /// first rows of the epoch, so that every row is taken at least once; true leaves out the last
  /// rows.
  bool drop_last = false;
  size_t threads = 0;  ///< That load batches ahead; 0: the loop's own.
};

namespace detail {

/// The rows of one worker in one epoch: the same numbers as Python's DistributedSampler gives.
std::vector<size_t> rows_of_epoch(size_t rows, int rank, int world_size, int64_t epoch,
                                  const DataLoaderOptions& options);
/// This worker's rank and size, or rank 0 of 1 outside of a run.
std::pair<int, int> rank_and_size();
/// Throws Error(kInvalidArgument) if the options cannot be used with this many rows.
void check_loader(std::optional<size_t> rows, int world_size, const DataLoaderOptions& options);

struct SampledEpoch {
  size_t rows = 0;
  int rank = 0;
  int world_size = 1;
  int64_t epoch = 0;
  DataLoaderOptions options;
};

class EpochSampler final : public torch::data::samplers::Sampler<> {
 public:
  explicit EpochSampler(std::shared_ptr<const SampledEpoch> epoch);
  void reset(std::optional<size_t> new_size = std::nullopt) override;
  std::optional<std::vector<size_t>> next(size_t batch_size) override;
  void save(torch::serialize::OutputArchive& archive) const override;
  void load(torch::serialize::InputArchive& archive) override;

 private:
  std::shared_ptr<const SampledEpoch> epoch_;
  std::vector<size_t> rows_;
  size_t next_ = 0;
};

}  // namespace detail

/// One worker's part of a torch::data set, in batches.
template <class Dataset>
class PreparedDataLoader {
 public:
  PreparedDataLoader(Dataset dataset, const DataLoaderOptions& options)
      : epoch_(std::make_shared<detail::SampledEpoch>()) {
    auto [rank, size] = detail::rank_and_size();
    detail::check_loader(dataset.size(), size, options);
    *epoch_ = {*dataset.size(), rank, size, 0, options};
    loader_ = torch::data::make_data_loader(
        std::move(dataset), detail::EpochSampler(epoch_),
        torch::data::DataLoaderOptions(static_cast<size_t>(options.batch_size))
            .workers(options.threads));
  }

  /// Decides the order of the next `begin()`. Without it, every epoch has the order of epoch 0.
  void set_epoch(int64_t epoch) { epoch_->epoch = epoch; }
  auto begin() {
    return loader_->begin();
  }  ///< Begins an epoch; the one before must be at its end.
  auto end() { return loader_->end(); }
  /// This worker's batches in an epoch: the same number on every worker.
  size_t size() const {
    size_t rows =
        detail::rows_of_epoch(epoch_->rows, epoch_->rank, epoch_->world_size, 0, epoch_->options)
            .size();
    auto batch = static_cast<size_t>(epoch_->options.batch_size);
    return (rows + batch - 1) / batch;
  }

 private:
  using Loader = torch::data::StatelessDataLoader<Dataset, detail::EpochSampler>;
  std::shared_ptr<detail::SampledEpoch> epoch_;
  std::unique_ptr<Loader> loader_;
};

/// Splits a torch::data set (random access, with a size) over the workers, as Ray's
/// prepare_data_loader and Python's DistributedSampler do. Call it on every worker with the same
/// data set and options.
///
/// ```
/// auto loader = train::prepare_data_loader(dataset.map(torch::data::transforms::Stack<>()),
///                                          {.batch_size = 64});
/// for (int epoch = 0; epoch < 10; ++epoch) {
///   loader.set_epoch(epoch);
///   for (auto& batch : loader) { ... batch.data, batch.target ... }
/// } ``` Every worker reads its own rows. For tables, use data sets of Manta (train/session.h):
/// they are read once per host, weigh uneven slices, and resume within an epoch; this does none of
/// that.
template <class Dataset>
PreparedDataLoader<Dataset> prepare_data_loader(Dataset dataset,
                                                const DataLoaderOptions& options = {}) {
  return PreparedDataLoader<Dataset>(std::move(dataset), options);
}

}  // namespace manta::train
