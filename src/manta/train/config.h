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
  kAuto,  ///< For each data set what is faster, by what the first host measures.
  /// Each host reads some of the data, and is sent by the others what its workers need. A data set
  /// with an operation that needs all rows at once, such as a sort, is read by each host even so.
  kAlways,
  kNever,  ///< Each host reads all data.
};

/// What a data-parallel run needs.
struct ScalingConfig {
  /// Processes that train together. 0 runs the loop and the data reader as threads of this process,
  /// so that a debugger sees them: the only rank of one. Nothing is taken from the machine's
  /// resources, and collective_timeout does not apply, because a breakpoint may last. One such run
  /// at a time; it ends early only when its loop calls a function of manta::train.
  int num_workers = 1;
  bool use_gpu = false;                 ///< Gives each worker one GPU, besides its CPU.
  Resources resources_per_worker = {};  ///< Held for as long as the worker lives. Default: one CPU.
  /// On which nodes of a cluster the workers are placed. Default: on as few as possible.
  Placement placement_strategy = Placement::kPack;
  /// Whenever the group is started and the nodes that are there cannot hold `num_workers`, it runs
  /// with as many as they hold, if that is at least so many. 0: always with all.
  int min_workers = 0;
  /// Whether the hosts share the reading of data. Without connections between them (a firewall)
  /// each reads all of it, with a warning.
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
  /// A metric of the report that the checkpoint came with. Keeps the best checkpoints by it instead
  /// of the latest. One inside an object is "outer/inner". A report without the metric, or where it
  /// is NaN, ranks last.
  std::string checkpoint_score_attribute = {};
  std::string checkpoint_score_order = "max";  ///< Or "min".
  /// How many may be in flight to the disk at a time, each as a copy in memory, so that a slow disk
  /// does not hold up the loop. A report with one more waits for the oldest.
  int max_in_flight = 2;
  /// A checkpoint every so many rounds, for trainers that make them themselves, such as
  /// XGBoostTrainer. 0: none on the way. Where the training loop decides (TorchTrainer), setting
  /// this or the next one is an error.
  int checkpoint_frequency = 0;
  /// Also after the last round. Default: yes.
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
  int64_t iterations = 0;  ///< After so many reports, those before a restore counted. 0: no limit.
  /// After so much time with workers, that before a restore counted; also between reports, of which
  /// the unfinished one is lost. 0: no limit.
  std::chrono::milliseconds time{0};

  bool operator==(const StopCriteria&) const = default;
};

struct RunConfig {
  std::string name = {};  ///< The run folder's name. Default: made from the time.
  /// Where run folders are: a local folder, or an address such as s3://bucket/runs, with key and
  /// server as data sources take them (docs/data.md). Default: ~/manta_results.
  ///
  /// At an address is everything that another process or machine needs to read the run and to
  /// restore it. While the run goes on it has a folder on the driver's machine, below
  /// ~/manta_results/.remote, which is removed at the end. What is committed there is brought to
  /// the store in the background: a checkpoint's files first and then its manifest; the journal
  /// after each checkpoint and at most every 5 seconds, but never ahead of a checkpoint that is not
  /// stored yet; other files, new and changed ones, about every minute, large ones less often, all
  /// at the end. A store that cannot be used at the start is an error of fit() before workers
  /// start; one that fails later is warned of and tried again.
  std::string storage_path = {};
  /// At the end of a run whose storage_path is an address: how long the store may take nothing
  /// before fit() gives up, with an error that says what is not stored and where it is. Ctrl-C,
  /// SIGTERM and RunHandle::stop end that wait at once.
  std::chrono::milliseconds storage_timeout = std::chrono::minutes(2);
  FailureConfig failure_config = {};
  CheckpointConfig checkpoint_config = {};
  /// A worker that waits this long for another in a collective operation fails and names it.
  std::chrono::milliseconds collective_timeout = std::chrono::minutes(5);
  /// When the run is to end (Ctrl-C, SIGTERM, RunHandle::stop), a loop that asks
  /// train::should_stop() has so long to leave a last checkpoint and return; then it is ended. A
  /// loop that has not asked is ended at once. A machine that is taken away says how long it waits
  /// after SIGTERM: stay below that.
  std::chrono::milliseconds stop_grace = std::chrono::seconds(30);
  /// Who may use the run folder, as in chmod, minus the umask. Everything in it gets the same
  /// permissions, except logs, which only this user may read. The owner's digit must be 7. Default:
  /// this user only.
  unsigned folder_mode = 0700;
  /// What standard error shows. 0 or false: nothing. 1 or true: progress, a line for each report, a
  /// summary. 2: epochs and checkpoints, too. 3: also all metrics of each report, as JSON.
  int verbose = 1;
  StopCriteria stop = {};
  /// The driver tells them what happens (see callback.h). They are not stored: give them to
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
  /// The same as a table: a row for each report, a column for each metric ("outer/inner"), with
  /// int64, double, bool or text, whichever holds all of its values; null where a report has none.
  std::shared_ptr<arrow::Table> metrics_dataframe() const;
  /// How many rows of each data set the workers took together, in the last epoch that they had read
  /// to its end when they reported. Data sets of which there is none are not in it.
  std::map<std::string, int64_t> rows;
  RunOutcome outcome = RunOutcome::kFinished;  ///< Or kStopped or kPaused.
  Json config;  ///< Of a trial: what the search gave it; see tuner.h. Otherwise null.
  /// Of a trial, or of Trainer::latest_run, that failed: why, as far as the journal says. (A
  /// trainer's fit() throws it.)
  std::optional<Error> error = {};
};

}  // namespace manta
