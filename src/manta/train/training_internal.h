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

/// Everything about a data-parallel run: what a trainer of any framework makes of its options.
struct Training {
  std::string trainer;  ///< Its name, such as "TorchTrainer": another's run is not restored.
  Function loop;
  bool loop_takes_config = true;
  Json config;
  ScalingConfig scaling;
  RunConfig run;
  std::map<std::string, Dataset> datasets;
  /// The run's own copy is fitted to the data set "train", unless it is fitted already; applied to
  /// all of them on their way to the workers; kept in each checkpoint.
  AnyPreprocessor preprocessor;
  /// The driver's own, in each checkpoint: text by name.
  std::map<std::string, std::string> checkpoint_files;
  Json framework = Json::object();  ///< For the framework's own use in the workers.
  /// Takes nothing; runs in every worker before the loop, where the framework tells the Session
  /// what the Session should know of it, e.g. how to word the framework's exceptions.
  std::optional<Function> prepare_worker = {};
  /// Whether the trainer, and not a loop of the user's, decides when there is a checkpoint: it
  /// honours CheckpointConfig::checkpoint_frequency and checkpoint_at_end.
  bool schedules_checkpoints = false;
  /// So many workers, at most, exchange what collectives carry through a region of shared memory.
  int max_in_shared_memory = INT_MAX;
  std::string restore_from;           ///< A run folder to go on with; empty for a new run.
  Checkpoint resume_from_checkpoint;  ///< Where a new run begins.
  /// Data sets without which it cannot begin. They may be given as late as to fit().
  std::vector<std::string> required_datasets = {};
  /// Whose workers run the loop, and stay; null: the run starts its own.
  std::shared_ptr<StartedWorkers> workers = {};
  /// Where what the loops return goes, by rank, once all have returned; null: nowhere.
  std::shared_ptr<std::vector<LoopResult>> results = {};
  /// Where the run says in which folder it is, as soon as there is one; null: nowhere.
  std::shared_ptr<LastRun> last_run = {};
  /// Whether what the loop throws ends the run, however many failures are allowed.
  bool raises_user_errors = false;
  std::string resume_error;  ///< Why that is not there any more, if a restored run began with one.
};

/// Whether the loop runs in the driver's own process, as the only rank.
inline bool runs_in_driver(const ScalingConfig& scaling) { return scaling.num_workers == 0; }

inline int ranks_of(const ScalingConfig& scaling) {
  return runs_in_driver(scaling) ? 1 : scaling.num_workers;
}

/// Where a run is, for whoever has started it, in any thread.
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
  CheckpointConfig checkpoints() const {  ///< By what it keeps them.
    std::lock_guard lock(mutex_);
    return checkpoints_;
  }

 private:
  mutable std::mutex mutex_;
  std::string path_, folder_;
  CheckpointConfig checkpoints_;
};

/// What each worker holds while it lives.
Resources resources_of_worker(const ScalingConfig& scaling);

/// Throws Error(kInvalidArgument) if the options make no sense.
void check_training(const Training& training);

/// Throws Error(kResources) if those nodes never have enough for all workers at a time; what is in
/// use now is waited for.
void check_capacity(const ScalingConfig& scaling, WhichNodes nodes = WhichNodes::kAll);
/// How many workers a group that starts now should have: `num_workers`, unless `min_workers` allows
/// fewer and the nodes that are there cannot hold all; one in the driver.
int workers_for_now(const ScalingConfig& scaling);

/// As well if it cannot begin in this process, or the machine could never hold it; before there is
/// a folder.
void check_start(const Training& training);

/// Blocks until the run has ended. What `events` gets from others, Interrupted, ends it in order.
Result run_training(const Training& training, EventQueue& events);
/// In one call: checks, starts, waits.
Result run_training(const Training& training);

/// The longest RunConfig::collective_timeout. Ten years, so that sums of times do not overflow.
inline constexpr std::chrono::milliseconds kLongestTimeout = std::chrono::hours(24 * 3650);

/// What params.json of an earlier run holds. Throws Error(kNotFound) if there is no run,
/// Error(kCorrupt) naming the file if it cannot be read within limits.
Json read_params(const std::string& run_folder);
/// Makes of it what it says: everything but the loop. Checks every field: throws Error(kCorrupt)
/// naming the file, the field and its value.
/// Of data sets that are `given` anew the stored plan is not read: it may be why they are.
Training training_from_params(const std::string& run_folder,
                              const std::map<std::string, Dataset>& given = {});

/// The file of a checkpoint that keeps the preprocessor.
inline constexpr const char* kPreprocessorFile = "preprocessor.json";
/// How much of it is read, and so written: the categories of several columns.
inline constexpr JsonLimits kPreprocessorLimits = {.bytes = size_t{128} << 20, .values = 8'000'000};

/// What a restored run does otherwise. What is not set is as it was.
struct RestoreChanges {
  std::optional<Json> config = {};
  std::optional<ScalingConfig> scaling = {};
  std::optional<RunConfig> run = {};
  std::map<std::string, Dataset> datasets =
      {};  ///< In place of those of the same name, or new ones.
};
/// The run in a folder as a trainer of that name goes on with it: everything but the loop. Throws
/// Error(kInvalidArgument) if it is another trainer's, or a data set has to be given.
Training restore_training(const std::string& run_folder, const std::string& trainer,
                          const RestoreChanges& changes);
/// Whether there is a run.
bool is_run_folder(const std::string& path);

}  // namespace manta::train
