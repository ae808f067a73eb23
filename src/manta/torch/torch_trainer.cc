#include "manta/torch/torch_trainer.h"

#include <climits>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/torch/backend_choice_internal.h"
#include "manta/torch/torch_worker_internal.h"
#include "manta/train/backend_internal.h"
#include "manta/train/data_parallel_internal.h"

namespace manta {
namespace {

const char kName[] = "TorchTrainer";

train::Training with_torch(train::Training training, const std::string& backend) {
  if (backend != "auto" && backend != "shm" && backend != "gloo" && backend != "nccl") {
    throw Error(ErrorKind::kInvalidArgument,
                str("torch_config.backend must be auto, shm, gloo or nccl (was '", backend, "')"));
  }
  if (backend == "nccl") {  // the workers have the same libtorch, but other GPUs
    train::BackendFacts facts = train::backend_facts();
    facts.asked = backend;
    facts.gpus = "";
    facts.sees_gpu = train::resources_of_worker(training.scaling).gpus > 0;
    train::choose_backends(facts);
  }
  training.prepare_worker = detail::make_function(&train::prepare_torch_worker);
  training.framework = {{"backend", backend}};
  training.max_in_shared_memory = backend == "shm"    ? INT_MAX
                                  : backend == "gloo" ? 0
                                                      : kMaxCollectiveRanks;
  return training;
}

}  // namespace

bool detail::register_torch_backend() {
  return train::register_backend("torch", [](train::Training& training, const TorchConfig& config) {
    training = with_torch(std::move(training), config.backend);
  });
}

TorchTrainer::TorchTrainer(TorchTrainerOptions options)
    : TorchTrainer(with_torch(
          train::describe_loop(
              kName, {.train_loop_per_worker = options.train_loop_per_worker,
                      .train_loop_config = std::move(options.train_loop_config),
                      .scaling_config = std::move(options.scaling_config),
                      .run_config = std::move(options.run_config),
                      .datasets = std::move(options.datasets),
                      .preprocessor = std::move(options.preprocessor),
                      .resume_from_checkpoint = std::move(options.resume_from_checkpoint)}),
          options.torch_config.backend)) {}

TorchTrainer::TorchTrainer(train::Training training) : DataParallelTrainer(std::move(training)) {}

TorchTrainer TorchTrainer::restore(const std::string& path, TorchRestoreOptions options) {
  train::Training training = train::restore_loop(path, kName, std::move(options));
  JsonFields framework(training.framework, {str("'", path, "/params.json'")}, "framework.");
  std::string backend = framework.text("backend");
  return TorchTrainer(with_torch(std::move(training), backend));
}

TorchTrainer TorchTrainer::apply(const Space& values, const RunConfig& run_config) const {
  return TorchTrainer(tune::override_training(training(), values, run_config));
}

}  // namespace manta
