#pragma once

#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/base/json.h"
#include "manta/core/placement.h"
#include "manta/core/resources.h"
#include "manta/train/checkpoint.h"

namespace arrow {
class Table;
}

namespace manta {

class Callback;

/// Who reads which rows, if the workers are on several hosts (docs/clusters.md). The rows of each
/// worker, their order and the steps are the same in any case.
enum class SplitReading {
  kAuto,  ///< For each data set the faster way, as the first host measures it.
  /// Each host reads some of the data, and the others send it the rows that its workers need. Even
  /// so, each host reads all of a data set with an operation that needs all rows at once, such as a
  /// sort.
  kAlways,
  kNever,  ///< Each host reads all data.
};

/// What a data-parallel run needs.
struct ScalingConfig {
  /// Processes that train together. 0 runs the loop, as the only rank, and the data reader as
  /// threads of this process, so that a debugger sees them. Then nothing is taken from the
  /// machine's resources, and collective_timeout does not apply, because a breakpoint may last.
  /// Only one such run is possible at a time; it can end early only when its loop calls a function
  /// of manta::train.
  int num_workers = 1;
  bool use_gpu = false;                 ///< Gives each worker one GPU, besides its CPU.
  Resources resources_per_worker = {};  ///< Held for as long as the worker lives. Default: one CPU.
  /// On which nodes of a cluster the workers are placed. Default: on as few as possible.
  Placement placement_strategy = Placement::kPack;
  /// If the nodes cannot hold `num_workers` when the group is started, it runs with as many workers
  /// as they can hold, but never with fewer than this. 0: always with `num_workers`.
  int min_workers = 0;
  /// Whether the hosts share the reading of data. If they cannot connect to each other (a
  /// firewall), each reads all data, with a warning; with kAlways it is an error.
  SplitReading split_reading = SplitReading::kAuto;
};

/// What happens when a worker is lost or its loop throws.
struct FailureConfig {
  /// How often the whole group is restarted from the last checkpoint. -1: without limit.
  int max_failures = 0;
};

/// Which checkpoints stay on disk.
struct CheckpointConfig {
  int num_to_keep = 0;  ///< The latest one always stays. 0: all.
  /// A metric of the report that the checkpoint came with. Keeps the checkpoints with the best
  /// values of it instead of the latest ones. A metric inside an object is "outer/inner". A report
  /// without the metric, or where it is NaN, ranks last.
  std::string checkpoint_score_attribute = {};
  std::string checkpoint_score_order = "max";  ///< Or "min".
  /// How many checkpoints may be in flight to the disk at a time, each as a copy in memory, so that
  /// a slow disk does not hold up the loop. A report with another checkpoint waits for the oldest.
  int max_in_flight = 2;
  /// Makes a checkpoint each time this many rounds are done, for trainers that make checkpoints
  /// themselves, such as XGBoostTrainer. 0: none before the end. Where the training loop decides
  /// (TorchTrainer), setting this or the next field is an error.
  int checkpoint_frequency = 0;
  /// Makes a checkpoint after the last round, too. Default: yes.
  std::optional<bool> checkpoint_at_end = {};
  /// Waits until the disk has the checkpoint before it is committed, so that it also survives a
  /// power cut. The loop goes on meanwhile, up to max_in_flight. Off by default: a checkpoint of 1
  /// GiB takes almost half as long again (docs/checkpoints.md).
  bool fsync = false;

  bool operator==(const CheckpointConfig&) const = default;
};

/// Conditions that complete a run before its loop returns; the first that is met ends the run, with
/// the outcome kStopped. Metrics inside objects are named "outer/inner".
struct StopCriteria {
  std::map<std::string, double> at_least = {};  ///< {{"auc", 0.9}}: once a report has 0.9 or more.
  std::map<std::string, double> at_most = {};   ///< {{"loss", 0.1}}: once a report has 0.1 or less.
  int64_t iterations = 0;  ///< After this many reports, with those before a restore. 0: no limit.
  /// After this much time with workers, including time before a restore. The time may pass between
  /// two reports; then the unfinished one is lost. 0: no limit.
  std::chrono::milliseconds time{0};

  bool operator==(const StopCriteria&) const = default;
};

struct RunConfig {
  std::string name = {};  ///< The run folder's name. Default: made from the time.
  /// Where run folders are: a local folder, or an address such as s3://bucket/runs, with key and
  /// server as data sources take them (docs/data.md). Default: ~/manta_results.
  ///
  /// An address has everything that another process or machine needs to read the run and to restore
  /// it. While the run goes on, it has a folder on the driver's machine, below
  /// ~/manta_results/.remote, which is removed at the end. What is committed in that folder is
  /// copied to the store in the background: a checkpoint's files first and then its manifest; the
  /// journal after each checkpoint and at most every 5 seconds, but never ahead of a checkpoint
  /// that is not stored yet; other new and changed files about every minute, large ones less often,
  /// all at the end. If the store cannot be used at the start, fit() throws before workers start.
  /// If it fails later, there is a warning, and storing is tried again.
  std::string storage_path = {};
  /// At the end of a run whose storage_path is an address: for how long the store may accept
  /// nothing before fit() gives up, with an error that says what is not stored and where it is.
  /// Ctrl-C, SIGTERM and RunHandle::stop end that wait at once.
  std::chrono::milliseconds storage_timeout = std::chrono::minutes(2);
  FailureConfig failure_config = {};
  CheckpointConfig checkpoint_config = {};
  /// A worker that waits this long for another in a collective operation fails and names it.
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(5);
  /// When the run is to end (Ctrl-C, SIGTERM, RunHandle::stop), a loop that asks
  /// train::should_stop() has this long to leave a last checkpoint and return; then it is ended. A
  /// loop that has not asked is ended at once. If a machine will be taken away, stay below the time
  /// that it waits after SIGTERM.
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  /// The permissions of the run folder, as in chmod, minus the umask. Everything in it gets the
  /// same permissions, except logs, which only this user may read. The owner's digit must be 7.
  /// Default: this user only.
  unsigned folder_mode = 0700;
  /// What standard error shows. 0 or false: nothing. 1 or true: progress, a line for each report, a
  /// summary. 2: epochs and checkpoints, too. 3: also all metrics of each report, as JSON.
  int verbose = 1;
  StopCriteria stop = {};
  /// The driver tells these what happens (see callback.h). They are not stored: give them to
  /// restore() again.
  std::vector<std::shared_ptr<Callback>> callbacks = {};
};

/// How a run ended.
enum class RunOutcome {
  kFinished,     ///< Every loop returned.
  kStopped,      ///< A callback, or RunConfig::stop, decided that the run is complete.
  kPaused,       ///< A callback decided that restore resumes it later.
  kFailed,       ///< fit() throws the reason.
  kInterrupted,  ///< By Ctrl-C, SIGTERM or RunHandle::stop.
};

/// The result of a run. All of it is in the run folder, too.
struct Result {
  Json metrics;           ///< Of the last report; null if there was none.
  Checkpoint checkpoint;  ///< The latest; empty if there was none.
  std::string path;       ///< The run folder, or its address.
  /// Checkpoints on disk, or at the address, and the metrics that came with them; the best is last
  /// if there is a score, otherwise in order.
  std::vector<std::pair<Checkpoint, Json>> best_checkpoints;
  std::vector<Json> metrics_history;  ///< Each report once.
  /// metrics_history as a table: a row for each report, a column for each metric ("outer/inner"). A
  /// column is int64, double, bool or text, whichever holds all of its values, and null where a
  /// report lacks the metric.
  std::shared_ptr<arrow::Table> metrics_dataframe() const;
  /// How many rows of each data set all workers together took in the last epoch that they had
  /// finished when they reported. Data sets without a finished epoch are left out.
  std::map<std::string, int64_t> rows;
  RunOutcome outcome = RunOutcome::kFinished;  ///< Or kStopped or kPaused.
  Json config;  ///< Of a trial: what the search gave it; see tuner.h. Otherwise null.
  /// Why a trial, or a Trainer::latest_run, failed, as far as the journal says. (A trainer's fit()
  /// throws the error instead.)
  std::optional<Error> error = {};
};

}  // namespace manta
