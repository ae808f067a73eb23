#include "manta/train/trainer.h"

#include <cstdio>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/backend_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/loop_result_internal.h"
#include "manta/train/owned_folder_internal.h"
#include "manta/train/remote_run_internal.h"
#include "manta/train/result_internal.h"
#include "manta/train/run_handle.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/spool_internal.h"
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

// Throws before workers are started; the first run would throw it, too.
void require_bucket(const RemoteAddress& address) {
  if (address.scheme != "s3") return;
  RemoteAddress bucket = address.with_path("");
  if (look_at(bucket).kind != RemoteEntry::kNothing) return;
  throw Error(ErrorKind::kNotFound,
              str("TrainerOptions::storage_path: there is no '", bucket.text(),
                  "'; make the bucket, or give the address of one that exists"));
}

// A run of another trainer at this address would have files of the same names.
bool is_taken(const RemoteAddress& address) {
  return train::RemoteRun::exists(address) ||
         train::RemoteRun::exists(address, train::kFolderOfFunctions) ||
         train::RemoteRun::exists(address.child(kFirstRun));
}

}  // namespace

struct Trainer::State {
  train::AddBackend backend = nullptr;
  train::Training common;                          // to all runs
  std::string place;                               // of its runs; empty before start()
  std::optional<train::OwnedFolder> folder;        // that folder, unless `place` is an address
  std::string spool;                               // the workers' logs, if `place` is an address
  std::shared_ptr<train::StartedWorkers> workers;  // null in this process, and before start()
  bool started = false;
  int runs = 0;
  std::shared_ptr<train::LastRun> last_run = std::make_shared<train::LastRun>();

  void find_place();
  std::string make_log_folder();
};

void Trainer::State::find_place() {
  bool has_name = !common.run.name.empty();
  RunConfig run = common.run;
  if (!has_name) run.name = train::name_by_time(common.trainer);
  auto first = train::run_address(run);
  if (!first) {
    folder = train::OwnedFolder::make(common.run, common.trainer, kFirstRun);
    place = folder->path;
    return;
  }
  require_bucket(*first);
  RemoteAddress address = *first;
  for (int number = 2; is_taken(address); ++number) {
    if (has_name)
      throw Error(ErrorKind::kInvalidArgument, str("there are runs at '", address.text(),
                                                   "' already; take another TrainerOptions::name"));
    address = first->with_path(str(first->path, "_", number));
  }
  place = address.text();
}

std::string Trainer::State::make_log_folder() {
  if (!folder && spool.empty()) spool = train::make_spool();
  std::string logs = (folder ? folder->path : spool) + "/logs";
  train::make_folders(logs);
  return logs;
}

Trainer::Trainer(const std::string& backend, TrainerOptions options)
    : state_(std::make_unique<State>()) {
  state_->backend = train::find_backend(backend);
  train::Training& common = state_->common;
  common.trainer = "Trainer";
  common.scaling = {.num_workers = options.num_workers,
                    .use_gpu = options.use_gpu,
                    .resources_per_worker = std::move(options.resources_per_worker)};
  common.run.name = std::move(options.name);
  common.run.storage_path = std::move(options.storage_path);
  common.run.storage_timeout = options.storage_timeout;
  common.run.collective_timeout = options.collective_timeout;
  common.run.stop_grace = options.stop_grace;
  common.run.failure_config.max_failures = options.max_retries;
  common.run.verbose = options.verbose;
  common.raises_user_errors = true;
  common.last_run = state_->last_run;
  state_->backend(common, options.torch_config);
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
  if (state_->place.empty()) state_->find_place();
  if (!train::runs_in_driver(state_->common.scaling)) {
    state_->workers =
        std::make_shared<train::StartedWorkers>(state_->common.scaling, state_->make_log_folder());
  }
  state_->started = true;
}

void Trainer::shutdown() {
  auto workers = std::exchange(state_->workers, nullptr);
  state_->started = false;
  struct AtEnd {  // also if the run of the whole program has ended
    std::string spool;
    ~AtEnd() {
      std::error_code ignored;
      if (!spool.empty()) std::filesystem::remove_all(spool, ignored);
    }
  } at_end{std::exchange(state_->spool, {})};
  if (workers) workers->drop();
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
  training.run.storage_path = state_->place;
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
  std::string path = state_->last_run->get(), folder = state_->last_run->folder();
  if (!folder.empty() && train::is_run_folder(folder)) {
    Result result = train::read_result(folder, state_->last_run->checkpoints());
    result.path = path;
    return result;
  }
  if (path.empty() || !train::is_run_folder(path))
    throw Error(ErrorKind::kNotFound, "Trainer::latest_run: no run has begun yet");
  return train::read_result(path, state_->last_run->checkpoints());
}

std::string Trainer::logdir() const { return state_->place; }

}  // namespace manta
