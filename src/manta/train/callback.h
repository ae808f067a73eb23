#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/base/json.h"
#include "manta/train/checkpoint.h"
#include "manta/train/config.h"

namespace manta {

/// A report that is committed and in the journal.
struct ReportRecord {
  int64_t index = 0;  ///< 0, 1, ... over the whole run, restarts included.
  int attempt = 0;
  double time = 0;  ///< Seconds since 1970.
  /// The training time that led to it: from the start of its workers, without lost and idle time.
  double time_total_s = 0;
  Json metrics;
  std::string checkpoint;  ///< Its folder's name in the run folder, or empty.
};

/// A run as a callback sees it. Valid during the call.
struct RunInfo {
  std::string name;
  /// The run folder, on this machine. If RunConfig::storage_path is an address, files written to
  /// this folder are stored when the run ends.
  std::string path;
  const Json& train_loop_config;             ///< Of the current attempt, like scaling_config.
  const ScalingConfig& scaling_config;       ///< How many workers, and what each holds.
  const std::vector<ReportRecord>& reports;  ///< Each index once.
};

/// A pass over a data set, as rank 0 sees it: iter_batches, iter_torch_batches.
struct EpochRecord {
  std::string dataset;
  int64_t epoch = 0;
  int64_t rows = 0;  ///< Taken by all workers; at its start, those taken before a restart.
  int attempt = 0;
  double time = 0;  ///< Seconds since 1970.
};

/// Why an attempt ended early.
struct RunFailure {
  std::string who;  ///< "rank 1", "the data reader", "the driver"
  ErrorKind kind = ErrorKind::kUserCode;
  std::string message;
  bool will_restart = false;  ///< From the last checkpoint: reports after it are made again.
};

/// What the next attempt changes. A field that is not set stays as it is.
struct AttemptChanges {
  std::optional<ScalingConfig> scaling_config = {};
  std::optional<Json> train_loop_config = {};
};

/// How a run continues after a report.
struct Decision {
  enum Kind {
    kGoOn,
    kRestart,  ///< Ends the workers and restarts them from the last checkpoint.
    kPause,    ///< Ends the run; restore resumes it from the last checkpoint.
    kStop,     ///< Ends the run, which is then complete.
  };
  Kind kind = kGoOn;
  AttemptChanges changes = {};  ///< With kRestart only.

  static Decision go_on() { return {}; }
  static Decision stop() { return {kStop}; }
  static Decision pause() { return {kPause}; }
  static Decision restart(AttemptChanges changes = {}) { return {kRestart, std::move(changes)}; }
};

/// Watches runs from the driver: RunConfig::callbacks. A run calls its callbacks in order, on its
/// own thread, one call at a time. It does nothing else meanwhile, so keep them short. That thread,
/// and with it every thread that a callback starts, does not take a processor from the loops
/// (SCHED_BATCH).
///
/// An exception from on_run_start ends the run. One from on_epoch_start, on_epoch_end,
/// on_checkpoint or on_report counts as a failure of the attempt (see FailureConfig), as if a
/// worker had failed. fit() throws an exception from on_run_end, unless the run has failed anyway;
/// then it becomes a warning, and so does an exception from on_failure.
class Callback {
 public:
  virtual ~Callback() = default;
  /// Called before any worker starts. `run.reports` has those of earlier attempts, if restored.
  virtual void on_run_start(const RunInfo& run);
  /// The loop began, or ended, a pass over a data set. An epoch that the loop leaves early ends
  /// there. The loop does not wait for these calls, so it may already have made the report that
  /// follows.
  virtual void on_epoch_start(const RunInfo& run, const EpochRecord& epoch);
  virtual void on_epoch_end(const RunInfo& run, const EpochRecord& epoch);
  /// A checkpoint was committed; on_report comes next, with the metrics.
  virtual void on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint);
  /// `report` was committed and is the last of `run.reports`. The strongest decision of all
  /// callbacks counts: stop, then pause, then restart. The loop may have made further reports,
  /// which are not kept if it ends. After a restart, reports that came after the last checkpoint
  /// come again.
  virtual Decision on_report(const RunInfo& run, const ReportRecord& report);
  virtual void on_failure(const RunInfo& run, const RunFailure& failure);
  virtual void on_run_end(const RunInfo& run, RunOutcome outcome);
};

}  // namespace manta
