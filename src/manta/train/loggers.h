#pragma once

#include <memory>
#include <string>

#include "manta/train/tracker.h"

/// Trackers that write files: `run_config = {.callbacks =
/// {std::make_shared<TBXLoggerCallback>()}}`. The tracker's own thread writes each file, soon after
/// the event; see Tracker for what happens if that fails. The run folder has result.json and
/// progress.csv without any of them.
namespace manta {

struct FileLoggerOptions {
  /// Default: a file in the run folder. Keep the default for a Tuner's trials, or for several runs:
  /// only one run at a time can use a file, even if the runs are of several programs. Another run
  /// that begins meanwhile gets a warning, and goes on without the file. (The lock is .<name>.lock
  /// beside the file.)
  std::string path = {};
  TrackerOptions tracker = {};
};

/// Everything that happens, one JSON object per line, in <run folder>/events.jsonl: `{"event":
/// "report", "time": ..., "index": 3, "attempt": 0, "metrics": {...}}`. The other events are
/// run_start, epoch_start, epoch_end, checkpoint, failure and run_end. A restored run appends.
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
  /// A folder for the event files. Default: <run folder>/tensorboard. Keep the default for a
  /// Tuner's trials, or for several runs: only one run at a time can use a folder, as with a file
  /// of FileLoggerOptions.
  std::string logdir = {};
  TrackerOptions tracker = {};
};

/// Event files for TensorBoard: `tensorboard --logdir ~/manta_results`. Numbers among the metrics
/// become scalars, train::histogram and train::text histograms and texts, and train_loop_config the
/// run's hyper-parameters (page HPARAMS) and a text. The step is the index of the report. After a
/// restart the reports that are made again replace the earlier ones.
class TBXLoggerCallback final : public Tracker {
 public:
  explicit TBXLoggerCallback(TBXLoggerOptions options = {});

 protected:
  std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) override;

 private:
  const std::string logdir_;
};

}  // namespace manta
