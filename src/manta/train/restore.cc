#include <climits>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

Training restore_training(const std::string& run_folder, const std::string& trainer,
                          const RestoreChanges& changes) {
  Training training = training_from_params(run_folder, changes.datasets);
  const Json params = read_params(run_folder);
  if (training.trainer != trainer) {
    throw Error(ErrorKind::kInvalidArgument, str("the run in '", run_folder, "' is of a ",
                                                 training.trainer, ", not of a ", trainer));
  }
  if (changes.config) training.config = *changes.config;
  if (changes.scaling) training.scaling = *changes.scaling;
  if (changes.run) {
    RunConfig stored = std::exchange(training.run, *changes.run);
    training.run.name = stored.name;  // the folder is what it is
    training.run.storage_path = stored.storage_path;
  }
  for (const auto& [name, dataset] : changes.datasets) {
    training.datasets.insert_or_assign(name, dataset);
  }
  JsonFields run(params.at("run_config"), str("params.json of '", run_folder, "'"), "run_config.");
  int64_t callbacks = run.has("callbacks") ? run.integer("callbacks", 0, INT_MAX) : 0;
  if (callbacks > 0 && training.run.callbacks.empty()) {
    log_warning(str("the run in '", run_folder, "' had ", callbacks,
                    callbacks == 1 ? " callback, which is" : " callbacks, which are",
                    " not stored: set run_config.callbacks for restore(), if it needs them"));
  }
  // A data set that could not be stored is there only by its name.
  for (const auto& [name, plan] : params.at("datasets").items()) {
    if (training.datasets.contains(name)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("data set '", name, "' of the run in '", run_folder,
                    "' uses functions of map_batches that cannot be stored: give it to restore() "
                    "again, or name them with manta::named"));
  }
  return training;
}

bool is_run_folder(const std::string& path) {
  if (auto address = remote_address(path)) return RemoteRun::exists(*address);
  std::error_code error;
  return std::filesystem::exists(path + "/params.json", error) &&
         std::filesystem::exists(path + "/journal.jsonl", error);
}

}  // namespace manta::train
