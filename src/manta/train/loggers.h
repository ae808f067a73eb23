#pragma once

#include <memory>
#include <string>

#include "manta/train/tracker.h"

/// Trackers that write files: `run_config = {.callbacks =
/// {std::make_shared<TBXLoggerCallback>()}}`. Each file is written by the tracker's own thread,
/// soon after what it tells; see Tracker for what happens if that fails. The run folder has
/// result.json and progress.csv without any of them.
namespace manta {

struct FileLoggerOptions {
  /// Default: a file in the run folder. For one of a Tuner's trials, or several runs, leave it at
  /// that: a file has one run at a time, also of several programs. Another that begins meanwhile is
  /// warned of, and goes on without the file. (A lock beside it, .<name>.lock, tells.)
  std::string path = {};
  TrackerOptions tracker = {};
};

/// Everything that happens, a JSON object on a line each, in <run folder>/events.jsonl:
/// `{"event": "report", "time": ..., "index": 3, "attempt": 0, "metrics": {...}}`. The other events
/// are run_start, epoch_start, epoch_end, checkpoint, failure and run_end. A restored run appends.
class JsonLoggerCallback final : public Tracker {
 public:
  explicit JsonLoggerCallback(FileLoggerOptions options = {});

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) override;

 private:
  const std::string path_;
};

/// The reports as a table, in <run folder>/reports.csv: training_iteration, timestamp,
/// time_total_s, checkpoint_dir_name, and a column for each number or text among the metrics,
/// "outer/inner" for those in objects. Each report is in it once, after a restart too. It keeps the
/// reports in memory, because a new column changes every line.
class CSVLoggerCallback final : public Tracker {
 public:
  explicit CSVLoggerCallback(FileLoggerOptions options = {});

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) override;

 private:
  const std::string path_;
};

struct TBXLoggerOptions {
  /// A folder for the event files. Default: <run folder>/tensorboard. For one of a Tuner's trials,
  /// or several runs, leave it at that: a folder has one run at a time, as a file of
  /// FileLoggerOptions has.
  std::string logdir = {};
  TrackerOptions tracker = {};
};

/// Event files for TensorBoard: `tensorboard --logdir ~/manta_results`. Numbers among the metrics
/// are scalars, train::histogram and train::text what they say, and train_loop_config the run's
/// hyper-parameters (page HPARAMS) and a text. The step is the index of the report. After a restart
/// the reports that are made again replace the earlier ones.
class TBXLoggerCallback final : public Tracker {
 public:
  explicit TBXLoggerCallback(TBXLoggerOptions options = {});

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) override;

 private:
  const std::string logdir_;
};

}  // namespace manta
