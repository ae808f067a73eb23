#pragma once

#include <chrono>
#include <climits>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/function.h"
#include "manta/core/which_nodes_internal.h"
#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/config.h"

namespace manta::train {

class EventQueue;
class LoopResult;
class StartedWorkers;
class LastRun;

/// Everything about a data-parallel run. A trainer of any framework makes it from its options.
struct Training {
  std::string trainer;  ///< Its name, such as "TorchTrainer": it does not restore the run of
                        ///< another trainer.
  Function loop;
  bool loop_takes_config = true;
  Json config;
  ScalingConfig scaling;
  RunConfig run;
  std::map<std::string, Dataset> datasets;
  /// The run fits its own copy to the data set "train", unless it is fitted already, applies it to
  /// all data sets on their way to the workers, and keeps it in each checkpoint.
  AnyPreprocessor preprocessor;
  /// The driver's own files in each checkpoint: text by name.
  std::map<std::string, std::string> checkpoint_files;
  Json framework = Json::object();  ///< For the framework's own use in the workers.
  /// A function without arguments that runs in every worker before the loop. In it, the framework
  /// sets up the Session, e.g. how to word the framework's exceptions.
  std::optional<Function> prepare_worker = {};
  /// Whether the trainer, and not a loop of the user, decides when there is a checkpoint: it
  /// honours CheckpointConfig::checkpoint_frequency and checkpoint_at_end.
  bool schedules_checkpoints = false;
  /// At most this many workers exchange the data of collectives through a region of shared memory.
  int max_in_shared_memory = INT_MAX;
  std::string restore_from;           ///< A run folder to go on with; empty for a new run.
  Checkpoint resume_from_checkpoint;  ///< Where a new run begins.
  /// Data sets without which it cannot begin. They may be given as late as in the call of fit().
  std::vector<std::string> required_datasets = {};
  /// The workers that run the loop, and stay; null: the run starts its own.
  std::shared_ptr<StartedWorkers> workers = {};
  /// Receives the results of the loops, by rank, once all have returned; may be null.
  std::shared_ptr<std::vector<LoopResult>> results = {};
  /// Receives the run's folder, as soon as there is one; may be null.
  std::shared_ptr<LastRun> last_run = {};
  /// Whether an exception of the loop ends the run, however many failures are allowed.
  bool raises_user_errors = false;
  std::string resume_error;  ///< If a restored run began with a checkpoint that is gone: why it is
                             ///< gone.
};

/// Whether the loop runs in the driver's own process, as the only rank.
inline bool runs_in_driver(const ScalingConfig& scaling) { return scaling.num_workers == 0; }

inline int ranks_of(const ScalingConfig& scaling) {
  return runs_in_driver(scaling) ? 1 : scaling.num_workers;
}

/// The place of a run, for the code that started it. Any thread may use it.
class LastRun {
 public:
  void set(std::string path, std::string folder, CheckpointConfig checkpoints) {
    std::lock_guard lock(mutex_);
    path_ = std::move(path);
    folder_ = std::move(folder);
    checkpoints_ = std::move(checkpoints);
  }
  std::string get() const {  ///< Its folder, or its address; empty if there is none.
    std::lock_guard lock(mutex_);
    return path_;
  }
  /// Its folder on this machine. That of a run at an address may be gone by now.
  std::string folder() const {
    std::lock_guard lock(mutex_);
    return folder_;
  }
  CheckpointConfig checkpoints() const {  ///< The options by which it keeps checkpoints.
    std::lock_guard lock(mutex_);
    return checkpoints_;
  }

 private:
  mutable std::mutex mutex_;
  std::string path_, folder_;
  CheckpointConfig checkpoints_;
};

/// The resources that each worker holds while it lives.
Resources resources_of_worker(const ScalingConfig& scaling);

/// Throws Error(kInvalidArgument) if the options make no sense.
void check_training(const Training& training);

/// Throws Error(kResources) if those nodes never have enough for all workers at a time. Resources
/// that are in use now count as available: the run waits for them.
void check_capacity(const ScalingConfig& scaling, WhichNodes nodes = WhichNodes::kAll);
/// How many workers a group that starts now should have: `num_workers`, unless `min_workers` allows
/// fewer and the present nodes cannot hold all; 1 if the loop runs in the driver.
int workers_for_now(const ScalingConfig& scaling);

/// Also throws if the run cannot begin in this process, or if the machine could never hold it; call
/// it before there is a folder.
void check_start(const Training& training);

/// Blocks until the run has ended. An Interrupted that others push to `events` ends it in order.
Result run_training(const Training& training, EventQueue& events);
/// Checks, starts and waits in one call.
Result run_training(const Training& training);

/// The longest RunConfig::collective_timeout. Ten years, so that sums of times do not overflow.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 3650);

/// The content of an earlier run's params.json. Throws Error(kNotFound) if there is no run,
/// Error(kCorrupt) naming the file if it cannot be read within limits.
Json read_params(const std::string& run_folder);
/// Makes the Training that it describes: everything but the loop. Checks every field: throws
/// Error(kCorrupt) naming the file, the field and its value. If a data set is `given` anew, its
/// stored plan is not read, because it may be the reason.
Training training_from_params(const std::string& run_folder,
                              const std::map<std::string, Dataset>& given = {});

/// The file of a checkpoint that keeps the preprocessor.
inline constexpr const char* kPreprocessorFile = "preprocessor.json";
/// Limits for reading it, and so for writing it: enough for the categories of several columns.
inline constexpr JsonLimits kPreprocessorLimits = {.bytes = size_t{128} << 20, .values = 8'000'000};

/// What a restored run changes. Fields that are not set stay as they were.
struct RestoreChanges {
  std::optional<Json> config = {};
  std::optional<ScalingConfig> scaling = {};
  std::optional<RunConfig> run = {};
  std::map<std::string, Dataset> datasets = {};  ///< Replace those of the same name, or are new.
};
/// The run in a folder, as a trainer of that name continues it: everything but the loop. Throws
/// Error(kInvalidArgument) if it is another trainer's, or a data set has to be given.
Training restore_training(const std::string& run_folder, const std::string& trainer,
                          const RestoreChanges& changes);
/// Whether the folder has a run in it.
bool is_run_folder(const std::string& path);

}  // namespace manta::train
