#include "manta/train/trainer.h"

#include <cstdio>

#include "manta/base/error_internal.h"
#include "manta/train/backend_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/loop_result_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/train/result_internal.h"
#include "manta/train/run_handle.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/started_workers_internal.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace {

const char kFirstRun[] = "run_001";

std::string run_name(int number) {
  char name[32];
  std::snprintf(name, sizeof(name), "run_%03d", number);
  return name;
}

}  // namespace

struct Trainer::State {
  train::AddBackend backend = nullptr;
  train::Training common;  // to all runs
  std::optional<train::OwnedFolder> folder;
  std::shared_ptr<train::StartedWorkers> workers;  // null in this process, as before start()
  bool started = false;
  int runs = 0;
  std::shared_ptr<train::LastRun> last_run = std::make_shared<train::LastRun>();
};

Trainer::Trainer(const std::string& backend, TrainerOptions options)
    : state_(std::make_unique<State>()) {
  state_->backend = train::find_backend(backend);
  train::Training& common = state_->common;
  common.trainer = "Trainer";
  common.scaling = {.num_workers = options.num_workers,
                    .use_gpu = options.use_gpu,
                    .resources_per_worker = std::move(options.resources_per_worker)};
  common.run.name = std::move(options.name);
  train::require_local_storage(options.storage_path, "Trainer");
  common.run.storage_path = std::move(options.storage_path);
  common.run.failure_config.max_failures = options.max_retries;
  common.run.verbose = options.verbose;
  common.raises_user_errors = true;
  common.last_run = state_->last_run;
  state_->backend(common);
  train::check_training(common);
}

Trainer::Trainer(Trainer&&) noexcept = default;
Trainer& Trainer::operator=(Trainer&&) noexcept = default;
Trainer::~Trainer() {
  if (!state_) return;
  try {
    shutdown();
  } catch (const Error&) {  // the run of the whole program has ended, and the workers with it
  }
}

void Trainer::start() {
  if (state_->started) return;
  train::check_start(state_->common);
  if (!state_->folder) {
    state_->folder = train::OwnedFolder::make(state_->common.run, "Trainer", kFirstRun);
  }
  if (!train::runs_in_driver(state_->common.scaling)) {
    std::string logs = state_->folder->path + "/logs";
    train::make_folders(logs);
    state_->workers = std::make_shared<train::StartedWorkers>(state_->common.scaling, logs);
  }
  state_->started = true;
}

void Trainer::shutdown() {
  if (state_->workers) state_->workers->drop();
  state_->workers.reset();
  state_->started = false;
}

std::vector<Value> Trainer::run_function(const Function& function, bool takes_config,
                                         const Json& config, TrainerRunOptions options) {
  if (!state_->started) {
    throw Error(ErrorKind::kInvalidArgument,
                "Trainer::run was called before start(), or after shutdown()");
  }
  if (!takes_config && !config.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "Trainer::run was given a config, but the function takes none: let it have a "
                "parameter `const Json& config`");
  }
  train::Training training = state_->common;
  training.loop = function;
  training.loop_takes_config = takes_config;
  training.config = config.is_null() ? Json::object() : config;
  training.run.name = run_name(++state_->runs);
  training.run.storage_path = state_->folder->path;
  training.run.callbacks = std::move(options.callbacks);
  training.run.checkpoint_config = std::move(options.checkpoint_strategy);
  training.datasets = std::move(options.dataset);
  training.resume_from_checkpoint = std::move(options.checkpoint);
  training.workers = state_->workers;
  training.results = std::make_shared<std::vector<train::LoopResult>>();
  auto results = training.results;
  Result result = RunHandle(std::move(training)).result();
  if (result.outcome != RunOutcome::kFinished) {
    throw Error(ErrorKind::kCancelled,
                str("a callback ended the run in '", result.path,
                    "' before the functions had returned; Trainer::latest_run has what they "
                    "reported"));
  }
  std::vector<Value> values;
  for (const auto& each : *results) values.push_back(each.value());
  return values;
}

Result Trainer::latest_run() const {
  std::string path = state_->last_run->get();
  if (path.empty() || !train::is_run_folder(path))
    throw Error(ErrorKind::kNotFound, "Trainer::latest_run: there was no run yet");
  return train::read_result(path, {});
}

std::string Trainer::logdir() const { return state_->folder ? state_->folder->path : ""; }

}  // namespace manta
