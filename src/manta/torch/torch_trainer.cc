#include "manta/torch/torch_trainer.h"

#include <filesystem>

#include "manta/base/json_input_internal.h"
#include "manta/io/collective_region.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace {

train::Training to_training(const TorchTrainerOptions& options, const std::string& restore_from) {
  train::Training training;
  training.trainer = "TorchTrainer";
  training.loop = options.train_loop_per_worker.function();
  training.loop_takes_config = options.train_loop_per_worker.takes_config();
  training.config = options.train_loop_config;
  training.scaling = options.scaling_config;
  training.run = options.run_config;
  training.datasets = options.datasets;
  const std::string& backend = options.torch_config.backend;
  training.framework = {{"backend", backend}};
  training.shared_memory =
      backend == "shm" ||
      (backend == "auto" && options.scaling_config.num_workers <= kMaxCollectiveRanks);
  training.resume_from_checkpoint = options.resume_from_checkpoint;
  training.restore_from = restore_from;
  return training;
}

}  // namespace

TorchTrainer::TorchTrainer(TorchTrainerOptions options) : TorchTrainer(std::move(options), "") {}

TorchTrainer::TorchTrainer(TorchTrainerOptions options, std::string restore_from)
    : options_(std::move(options)), restore_from_(std::move(restore_from)) {
  if (!options_.train_loop_per_worker) {
    throw Error(ErrorKind::kInvalidArgument, "TorchTrainer needs a train_loop_per_worker");
  }
  const std::string& backend = options_.torch_config.backend;
  if (backend != "auto" && backend != "shm" && backend != "gloo") {
    throw Error(ErrorKind::kInvalidArgument,
                str("torch_config.backend must be auto, shm or gloo (was '", backend, "')"));
  }
  train::check_training(to_training(options_, restore_from_));
}

TorchTrainer TorchTrainer::restore(const std::string& path, TorchRestoreOptions options) {
  train::Training stored = train::training_from_params(path);
  Json params = train::read_params(path);
  if (stored.trainer != "TorchTrainer") {
    throw Error(ErrorKind::kInvalidArgument,
                str("the run in '", path, "' is of a ", stored.trainer, ", not of a TorchTrainer"));
  }
  TorchTrainerOptions all;
  all.train_loop_per_worker = options.train_loop_per_worker;
  all.train_loop_config = options.train_loop_config.value_or(stored.config);
  all.scaling_config = options.scaling_config.value_or(stored.scaling);
  all.run_config = options.run_config.value_or(stored.run);
  JsonFields framework(stored.framework, str("'", path, "/params.json'"), "framework.");
  all.torch_config.backend = framework.text("backend");
  all.resume_from_checkpoint = stored.resume_from_checkpoint;
  for (const auto& [name, dataset] : params.at("datasets").items()) {
    if (auto given = options.datasets.find(name); given != options.datasets.end()) {
      all.datasets.insert(*given);
    } else if (auto kept = stored.datasets.find(name); kept != stored.datasets.end()) {
      all.datasets.insert(*kept);
    } else {
      throw Error(ErrorKind::kInvalidArgument,
                  str("data set '", name, "' of the run in '", path,
                      "' uses functions of map_batches that cannot be stored: give it to restore() "
                      "again, or name them with manta::named"));
    }
  }
  for (const auto& [name, dataset] : options.datasets) all.datasets.try_emplace(name, dataset);
  TorchTrainer trainer(std::move(all), stored.restore_from);
  trainer.resume_error_ = stored.resume_error;
  return trainer;
}

bool TorchTrainer::can_restore(const std::string& path) {
  std::error_code error;
  return std::filesystem::exists(path + "/params.json", error) &&
         std::filesystem::exists(path + "/journal.jsonl", error);
}

RunHandle TorchTrainer::start() {
  auto training = to_training(options_, restore_from_);
  training.resume_error = resume_error_;
  return RunHandle(std::move(training));
}

}  // namespace manta
