#include <filesystem>

#include "manta/train/training_internal.h"

namespace manta::train {

Training restore_training(const std::string& run_folder, const std::string& trainer,
                          const RestoreChanges& changes) {
  Training training = training_from_params(run_folder, changes.datasets);
  if (training.trainer != trainer) {
    throw Error(ErrorKind::kInvalidArgument, str("the run in '", run_folder, "' is of a ",
                                                 training.trainer, ", not of a ", trainer));
  }
  if (changes.config) training.config = *changes.config;
  if (changes.scaling) training.scaling = *changes.scaling;
  if (changes.run) training.run = *changes.run;
  for (const auto& [name, dataset] : changes.datasets) {
    training.datasets.insert_or_assign(name, dataset);
  }
  // What could not be stored is there by its name only.
  const Json params = read_params(run_folder);
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
  std::error_code error;
  return std::filesystem::exists(path + "/params.json", error) &&
         std::filesystem::exists(path + "/journal.jsonl", error);
}

}  // namespace manta::train
