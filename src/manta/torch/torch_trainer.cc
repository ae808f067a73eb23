#include "manta/torch/torch_trainer.h"

#include <climits>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/torch/torch_worker_internal.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace {

const char kName[] = "TorchTrainer";

void set_loop(train::Training& training, const TrainLoop& loop) {
  if (!loop) throw Error(ErrorKind::kInvalidArgument, "TorchTrainer needs a train_loop_per_worker");
  training.loop = loop.function();
  training.loop_takes_config = loop.takes_config();
  training.prepare_worker = manta::detail::make_function(&train::prepare_torch_worker);
}

void set_backend(train::Training& training, const std::string& backend) {
  if (backend != "auto" && backend != "shm" && backend != "gloo") {
    throw Error(ErrorKind::kInvalidArgument,
                str("torch_config.backend must be auto, shm or gloo (was '", backend, "')"));
  }
  training.framework = {{"backend", backend}};
  training.max_in_shared_memory = backend == "shm"    ? INT_MAX
                                  : backend == "auto" ? kMaxCollectiveRanks
                                                      : 0;
}

}  // namespace

TorchTrainer::TorchTrainer(TorchTrainerOptions options) {
  train::Training training;
  training.trainer = kName;
  training.config = std::move(options.train_loop_config);
  training.scaling = options.scaling_config;
  training.run = std::move(options.run_config);
  training.datasets = std::move(options.datasets);
  training.preprocessor = std::move(options.preprocessor);
  training.resume_from_checkpoint = options.resume_from_checkpoint;
  set_loop(training, options.train_loop_per_worker);
  set_backend(training, options.torch_config.backend);
  train::check_training(training);
  training_ = std::make_shared<train::Training>(std::move(training));
}

TorchTrainer::TorchTrainer(train::Training training)
    : training_(std::make_shared<train::Training>(std::move(training))) {}

TorchTrainer TorchTrainer::restore(const std::string& path, TorchRestoreOptions options) {
  train::Training training = train::restore_training(
      path, kName,
      {std::move(options.train_loop_config), std::move(options.scaling_config),
       std::move(options.run_config), std::move(options.datasets)});
  set_loop(training, options.train_loop_per_worker);
  JsonFields framework(training.framework, {str("'", path, "/params.json'")}, "framework.");
  set_backend(training, framework.text("backend"));
  train::check_training(training);
  return TorchTrainer(std::move(training));
}

TorchTrainer TorchTrainer::apply(const Space& values, const RunConfig& run_config) const {
  train::Training training = *training_;
  training.run = run_config;
  training.config = tune::override_config(training.config, values.train_loop_config);
  training.scaling = tune::override_scaling(training.scaling, values.scaling_config);
  for (const auto& [name, dataset] : values.datasets)
    training.datasets.insert_or_assign(name, dataset.value().value());
  if (auto preprocessor = values.preprocessor.value()) training.preprocessor = *preprocessor;
  if (auto from = values.resume_from_checkpoint.value()) training.resume_from_checkpoint = *from;
  train::check_training(training);
  return TorchTrainer(std::move(training));
}

train::Training TorchTrainer::training() const { return *training_; }

}  // namespace manta
