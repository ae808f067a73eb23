#pragma once

#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>

namespace arrow {
class RecordBatch;
}

namespace manta {

namespace data {
class ShardPass;
struct ShardState;
}  // namespace data

struct ShardBatchOptions {
  int64_t batch_size = 256;  ///< Rows for each worker and step.
  /// Rows of a step for all workers together, instead of batch_size: then the steps are the same
  /// for any number of workers. At least 2 x workers - 1, so that any remaining rows give each
  /// worker at least one.
  int64_t global_batch_size = 0;
  bool drop_last = false;  ///< Leave out a last step of fewer rows.
};

/// A worker's batches of one epoch, as Arrow data in shared memory.
class ShardBatches {
 public:
  explicit ShardBatches(std::shared_ptr<data::ShardPass> pass) : pass_(std::move(pass)) {}

  class Iterator {
   public:
    using value_type = std::shared_ptr<arrow::RecordBatch>;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(data::ShardPass* pass) : pass_(pass) { ++*this; }
    Iterator& operator++();
    void operator++(int) { ++*this; }
    const value_type& operator*() const { return batch_; }
    bool operator==(std::default_sentinel_t) const { return pass_ == nullptr; }

   private:
    data::ShardPass* pass_;
    value_type batch_;
  };
  Iterator begin() { return Iterator(pass_.get()); }
  std::default_sentinel_t end() { return {}; }

 private:
  std::shared_ptr<data::ShardPass> pass_;
};

/// One epoch of a worker's data, to be read once: what DataShard::iter_epochs gives.
class ShardEpoch {
 public:
  ShardEpoch(std::shared_ptr<data::ShardState> state, int64_t number)
      : state_(std::move(state)), number_(number) {}

  int64_t number() const { return number_; }  ///< The first one is 0.
  /// As DataShard::iter_batches. Throws Error(kInvalidArgument) if the epoch was read already, or
  /// the next one has begun.
  ShardBatches iter_batches(const ShardBatchOptions& options = {}) const;
  /// The same for the functions of frameworks.
  std::shared_ptr<data::ShardPass> begin_pass(const ShardBatchOptions& options) const;

 private:
  std::shared_ptr<data::ShardState> state_;
  int64_t number_;
};

/// What DataShard::iter_epochs returns: `for (const ShardEpoch& epoch : shard.iter_epochs())`, or
/// `epochs.next()`, to go through several data sets side by side.
class ShardEpochs {
 public:
  ShardEpochs(std::shared_ptr<data::ShardState> state, int64_t end)
      : state_(std::move(state)), end_(end) {}

  /// The next epoch, or nothing if there are no more. The epoch before it counts as over, even if
  /// it was not read to its end. Throws Error(kInvalidArgument) while that one is being read.
  std::optional<ShardEpoch> next();

  class Iterator {
   public:
    using value_type = ShardEpoch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(ShardEpochs* epochs) : epochs_(epochs), epoch_(epochs->next()) {}
    Iterator& operator++() {
      epoch_ = epochs_->next();
      return *this;
    }
    void operator++(int) { ++*this; }
    const ShardEpoch& operator*() const { return *epoch_; }
    bool operator==(std::default_sentinel_t) const { return !epoch_; }

   private:
    ShardEpochs* epochs_;
    std::optional<ShardEpoch> epoch_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() { return {}; }

 private:
  std::shared_ptr<data::ShardState> state_;
  int64_t end_;                  ///< The first epoch that there is not.
  std::optional<int64_t> last_;  ///< The one that was given last.
};

/// What one worker sees of a data set. All workers take the same steps: step k of an epoch is rows
/// [kG, (k+1)G) of what the data set gives, G rows for all workers together, and each takes its
/// part of them. If fewer rows than half a step are left at the end (with batch_size also: fewer
/// than two rows for each worker), they join the last step; otherwise they are a step of their own.
/// So every row is used exactly once per epoch, whatever the number of workers.
///
/// Every worker must iterate over it, in the same way.
class DataShard {
 public:
  explicit DataShard(std::shared_ptr<data::ShardState> state) : state_(std::move(state)) {}

  const std::string& name() const;
  /// The epoch that the next iteration reads: 0 at first; after a restart that of the checkpoint.
  /// `for (int64_t epoch = shard.epoch(); epoch < epochs; ++epoch)` is a loop that can be resumed.
  int64_t epoch() const;

  /// The remaining epochs, of as many as Dataset::repeat says, or of `epochs` in all. Epochs count
  /// from the first one of the run, so a run that goes on after a failure reads the missing ones.
  /// Throws Error(kInvalidArgument) if neither says how many.
  ///
  ///     for (const ShardEpoch& epoch : shard.iter_epochs()) {
  ///       for (auto& batch : iter_torch_batches(epoch, {.batch_size = 64})) ...
  ///       train::report(...);
  ///     }
  ShardEpochs iter_epochs() const;
  ShardEpochs iter_epochs(int64_t epochs) const;

  /// One epoch; for a restored run, the rest of the epoch that it had begun. If the returned object
  /// is destroyed before the end, as when you leave a range-for early, the epoch counts as over.
  /// You may keep a batch's memory; until you release it, the data reader has that much less to
  /// read into.
  ShardBatches iter_batches(const ShardBatchOptions& options = {}) const;
  /// The same for the functions of frameworks, which make their own kind of batch of each slice
  /// (shard_internal.h).
  std::shared_ptr<data::ShardPass> begin_pass(const ShardBatchOptions& options) const;
  /// For a framework that trains on one epoch over and over: the first epoch from its beginning,
  /// also after a restart.
  std::shared_ptr<data::ShardPass> begin_first_epoch(const ShardBatchOptions& options) const;

 private:
  std::shared_ptr<data::ShardState> state_;
};

}  // namespace manta
