#pragma once

#include <atomic>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/data/current_step_internal.h"
#include "manta/data/feed_internal.h"
#include "manta/data/shard.h"
#include "manta/data/step_internal.h"
#include "manta/io/wait_watch_internal.h"

namespace manta::data {

/// The state that lasts from epoch to epoch. The loop's thread writes it; other threads read the
/// counts.
struct ShardState {
  ShardState(std::shared_ptr<FeedClient> feed, std::string name, Position from)
      : feed(std::move(feed)), name(std::move(name)), position(from), epoch(from.epoch) {}

  const std::shared_ptr<FeedClient> feed;
  const std::string name;
  int64_t epochs = 0;  // as Dataset::repeat asks for; 0: not given, kEndlessly: no end
  Position position;   // after the last batch that was given out
  bool iterating = false;
  int64_t rows_decoded = 0;  // by the reader, in the last pass that ended
  std::optional<int64_t>
      rows_of_epoch;  // rows that all workers took of the last epoch they read to its end
  WaitWatch* watch =
      nullptr;  // the process's watch, if it has one: told of passes and of waits for rows
  // The process's current step, for all of its data sets: told of the steps that are taken.
  std::shared_ptr<CurrentStep> current_step = std::make_shared<CurrentStep>();
  /// Called when a pass over an epoch begins and ends, with the number of rows that all workers
  /// took of it until then. Must not throw.
  std::function<void(bool begins, int64_t epoch, int64_t rows)> on_pass;

  std::atomic<int64_t> epoch;           // the epoch under way, or the one that ended last
  std::atomic<int64_t> steps{0};        // in this process
  std::atomic<int64_t> rows{0};         // of this process
  std::atomic<int64_t> epoch_rows{0};   // of all workers, in this epoch so far
  std::atomic<int64_t> epoch_total{0};  // of the last epoch that ended; 0 if none has
  std::atomic<int64_t> pass{-1};        // the watch's number of the pass under way, or -1
  std::atomic<int64_t> pass_steps{0};   // steps taken in this pass
};

/// A worker's part of one step: consecutive rows, one part for each block that they lie in.
struct StepSlice {
  struct Part {
    std::shared_ptr<arrow::RecordBatch> batch;
    int64_t offset = 0;
    int64_t rows = 0;
  };
  std::vector<Part> parts;
  int64_t first_row = 0;  ///< Of the epoch.
  int64_t rows = 0;
  int64_t step_rows = 0;  ///< Of all workers.
};

/// One worker's way through one epoch.
class ShardPass {
 public:
  ShardPass(std::shared_ptr<ShardState> state, const ShardBatchOptions& options);
  ~ShardPass();  ///< If it is destroyed before the end, the epoch counts as over.

  /// False at the end of the epoch.
  bool next(StepSlice* slice);

 private:
  void finish();
  void pull();

  const std::shared_ptr<ShardState> state_;
  const StepRule rule_;

  int64_t row_;        // the next one
  int64_t known_;      // rows of the epoch that are known to exist
  int64_t delivered_;  // the rows before it that this node needs have arrived
  bool ended_ = false;
  bool finished_ = false;
  std::deque<FeedBlock> blocks_;
  std::unique_ptr<FeedClient::Pass> pass_;
};

/// The parts as one batch; without a copy if there is only one.
std::shared_ptr<arrow::RecordBatch> to_batch(const StepSlice& slice);

}  // namespace manta::data
