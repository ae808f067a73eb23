#include "manta/tune/tuner.h"

#include <unistd.h>

#include <algorithm>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/training_internal.h"
#include "manta/tune/experiment_internal.h"
#include "manta/tune/experiment_storage_internal.h"
#include "manta/tune/function_trials_internal.h"
#include "manta/tune/settings_internal.h"
#include "manta/tune/space_internal.h"
#include "manta/tune/trainer_trials_internal.h"
#include "manta/tune/trial_room_internal.h"

namespace manta {

using namespace tune;

namespace {

const char kFunction[] = "function";
const char kObjective[] = "objective";  // the default name of a function's result

uint64_t random_seed() {
  std::random_device device;
  return (uint64_t{device()} << 32) | device();
}

// Trials are processes of the driver's run. The error comes before there is a folder.
void check_driver() {
  Client::current("Tuner::fit");  // throws if there is no manta::init
  try {
    current_session_folder();
  } catch (const Error&) {
    throw Error(ErrorKind::kInvalidArgument,
                "Tuner::fit was called in a task, an actor or a training loop; call it in the "
                "driver, the program that called manta::init");
  }
}

void check_storage_timeout(const RunConfig& run) {
  if (run.storage_timeout.count() <= 0 || run.storage_timeout > train::kLongestTimeout)
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.storage_timeout must be from 1 ms to ten years (was ",
                    run.storage_timeout.count(), " ms)"));
}

// The error comes before there is anything at the address.
void check_storage(const RunConfig& run) {
  train::run_address(run);
  check_storage_timeout(run);
}

// Options that only runs of trainers know would be ignored.
void check_run_of_function(const RunConfig& run) {
  const RunConfig defaults;
  auto refuse = [](const char* field) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.", field, " is for trainers; a function that is tuned has none"));
  };
  train::check_checkpoint_config(run.checkpoint_config);
  if (run.checkpoint_config.checkpoint_frequency != 0 || run.checkpoint_config.checkpoint_at_end)
    refuse("checkpoint_config.checkpoint_frequency");
  if (run.checkpoint_config.max_in_flight != defaults.checkpoint_config.max_in_flight)
    refuse("checkpoint_config.max_in_flight");
  if (run.collective_timeout != defaults.collective_timeout) refuse("collective_timeout");
  if (!run.callbacks.empty()) refuse("callbacks");
  if (run.stop != defaults.stop) refuse("stop");
  if (run.checkpoint_config.fsync) refuse("checkpoint_config.fsync");
  if (run.storage_timeout != defaults.storage_timeout && !remote_address(run.storage_path))
    refuse("storage_timeout");
  if (run.failure_config.max_failures < -1)
    throw Error(ErrorKind::kInvalidArgument,
                str("failure_config.max_failures must be -1 (no limit) or more (was ",
                    run.failure_config.max_failures, ")"));
  if (run.folder_mode < 0700 || run.folder_mode > 0777)
    throw Error(ErrorKind::kInvalidArgument, str("run_config.folder_mode must be from 0700 to 0777 "
                                                 "(was 0",
                                                 std::oct, run.folder_mode, ")"));
}

Objective objective_of(const TuneConfig& config) { return {config.metric, config.mode == "max"}; }

// Uses the callbacks given now, or the trainer's. Warns if a restored experiment had callbacks and
// has none now.
void set_callbacks(RunConfig& run, const std::string& path, const Json& settings,
                   std::vector<std::shared_ptr<Callback>> given, const BaseTrainer* trainer) {
  run.callbacks = std::move(given);
  if (run.callbacks.empty() && trainer) run.callbacks = trainer->training().run.callbacks;
  if (!trainer) return check_run_of_function(run);
  if (!run.callbacks.empty() || settings.at("run_config").value("callbacks", 0) == 0) return;
  log_warning(str("the experiment in '", path,
                  "' had callbacks, which are not stored: give them to Tuner::restore, if it needs "
                  "them"));
}

}  // namespace

struct Tuner::State {
  Parts parts;
  Settings settings;
  std::string restore_from;  // empty: a new experiment
  bool resume_errored = false;
  bool changed = false;  // what experiment.json holds

  ExperimentStorage open_storage(const Settings& with_seed, std::function<void()> on_news) const;
  std::unique_ptr<Trials> make_trials(const ExperimentStorage& storage,
                                      const std::shared_ptr<tune::EventQueue>& events) const;
  ResultGrid run(Settings with_seed) const;
};

Tuner::Tuner(Parts parts, TuneConfig tune_config, RunConfig run_config) {
  check_tune_config(tune_config);
  grid_size(parts.space);
  auto state = std::make_shared<State>();
  Settings& settings = state->settings;
  settings.space = parts.space;
  settings.config = std::move(tune_config);
  settings.trainable = kFunction;
  settings.run = std::move(run_config);
  if (parts.trainer) {
    train::Training training = parts.trainer->training();
    settings.trainable = training.trainer;
    settings.run = run_config_of_trials(settings.run, training.run);
  } else {
    check_resources(parts.function->resources(), "the resources of a trial");
    check_run_of_function(settings.run);
  }
  check_storage(settings.run);
  settings.config.scheduler.make(objective_of(settings.config));  // throws if it needs a metric
  state->parts = std::move(parts);
  state_ = std::move(state);
}

tune::Space Tuner::stored_space(const std::string& path) {
  return space_from(path, read_settings(path));
}

Tuner::Tuner(const std::string& path, Parts parts, Changes changes) {
  auto state = std::make_shared<State>();
  Json json = read_settings(path);
  Settings settings = settings_from(path, json, changes.search_alg, changes.scheduler);
  std::string trainable = parts.trainer ? parts.trainer->training().trainer : kFunction;
  if (settings.trainable != trainable)
    throw Error(ErrorKind::kInvalidArgument, str("the experiment in '", path, "' is of a ",
                                                 settings.trainable, ", not of a ", trainable));
  bool whole = true;
  if (to_json(parts.space, &whole) != json.at("space"))
    throw Error(ErrorKind::kInvalidArgument,
                str("Tuner::restore: param_space is not the one that the experiment in '", path,
                    "' searches; leave it out, or give the same"));
  settings.space = parts.space;
  if (changes.num_samples && *changes.num_samples < settings.config.num_samples)
    throw Error(ErrorKind::kInvalidArgument,
                str("Tuner::restore: num_samples may only grow (was ", settings.config.num_samples,
                    ", received ", *changes.num_samples, ")"));
  if (changes.storage_timeout) {
    if (!remote_address(path) && !remote_address(settings.run.storage_path))
      throw Error(ErrorKind::kInvalidArgument,
                  str("Tuner::restore: storage_timeout is for experiments at an address, but that "
                      "in '",
                      path, "' is in a folder; leave it out"));
    settings.run.storage_timeout = *changes.storage_timeout;
    check_storage_timeout(settings.run);
  }
  state->changed = changes.num_samples || changes.verbose || changes.storage_timeout;
  settings.config.num_samples = changes.num_samples.value_or(settings.config.num_samples);
  settings.run.verbose = changes.verbose.value_or(settings.run.verbose);
  set_callbacks(settings.run, path, json, std::move(changes.callbacks), parts.trainer.get());
  state->settings = std::move(settings);
  state->parts = std::move(parts);
  state->restore_from = path;
  state->resume_errored = changes.resume_errored;
  state_ = std::move(state);
}

bool Tuner::can_restore(const std::string& path) { return ExperimentFolder::exists(path); }

ResultGrid Tuner::fit() const {
  check_driver();
  Settings settings = state_->settings;
  if (!settings.config.seed) settings.config.seed = random_seed();
  if (state_->parts.function) check_possible(*state_->parts.function);
  return state_->run(std::move(settings));
}

ResultGrid Tuner::State::run(Settings with_seed) const {
  const TuneConfig& config = with_seed.config;
  auto searcher = config.search_alg.make(
      {with_seed.space, objective_of(config), config.num_samples, *config.seed});
  auto scheduler = config.scheduler.make(objective_of(config));
  auto count_room = [&config, this] {
    return room_for_trials(config, parts.function ? &*parts.function : nullptr);
  };
  Controller::Options options;
  options.room = count_room();
  // A trainer's run starts itself again.
  options.max_failures = parts.function ? with_seed.run.failure_config.max_failures : 0;
  Controller controller(options, *searcher, *scheduler);

  auto events = std::make_shared<tune::EventQueue>();
  // The mirror's thread is joined before this returns, but may be the last to release the queue.
  ExperimentStorage storage = open_storage(with_seed, [events] { events->push(Woken{}); });
  std::unique_ptr<Trials> trials;
  try {
    for (const auto& event : storage.folder->take_events())
      controller.replay(event.attempt, event.event, event.details);
    if (changed) storage.set_settings(to_json(with_seed));
    if (resume_errored) controller.revive_failed();
    trials = make_trials(storage, events);
  } catch (...) {
    if (restore_from.empty()) {
      storage.forget();
    } else if (remote_address(restore_from)) {
      storage.discard_spool();  // the spool has nothing that the store lacks
    }
    throw;
  }
  Progress progress(objective_of(config), with_seed.run.verbose, ::isatty(STDERR_FILENO) == 1);
  Experiment experiment({*storage.folder, controller, *searcher, with_seed.space, *trials, *events,
                         progress, storage.mirror.get(), with_seed.run.storage_timeout,
                         room_changes() ? count_room : std::function<TrialRoom()>()});
  bool finished = experiment.run();
  const std::string& missing = experiment.missing();
  if (!finished) {
    std::string path = missing.empty() ? storage.place() : storage.folder->path();
    if (missing.empty()) storage.remove_spool();
    throw Error(ErrorKind::kCancelled,
                str("the experiment was interrupted; Tuner::restore(\"", path,
                    "\", ...) goes on with it", missing.empty() ? "" : "\n  ", missing));
  }
  if (!missing.empty())
    throw Error(experiment.storing_was_interrupted() ? ErrorKind::kCancelled : ErrorKind::kIo,
                str("the experiment has ended, but not all of it is stored: ", missing));
  progress.summary(controller.trials(), storage.place());
  std::vector<Result> results;
  for (const Trial& trial : controller.trials()) {
    Result result = trials->result(trial);
    result.config = trial.config;
    result.error = trial.error;
    result.outcome = trial.outcome;
    results.push_back(std::move(result));
  }
  storage.remove_spool();
  return ResultGrid(std::move(results), storage.place(), config.metric, config.mode);
}

ExperimentStorage Tuner::State::open_storage(const Settings& with_seed,
                                             std::function<void()> on_news) const {
  const train::FolderKind& kind =
      parts.function ? train::kFolderOfFunctions : train::kFolderOfTrainers;
  if (!restore_from.empty()) return ExperimentStorage::open(kind, restore_from, std::move(on_news));
  return ExperimentStorage::create(kind, with_seed.run, to_json(with_seed), std::move(on_news));
}

std::unique_ptr<Trials> Tuner::State::make_trials(
    const ExperimentStorage& storage, const std::shared_ptr<tune::EventQueue>& events) const {
  train::RunMirror* mirror = storage.mirror.get();
  std::unique_ptr<Trials> trials;
  if (parts.function) {
    const std::string& metric = settings.config.metric;
    auto of_function = std::make_unique<FunctionTrials>(
        *parts.function, storage.folder->path(), metric.empty() ? kObjective : metric,
        settings.run.checkpoint_config, events, mirror);
    if (mirror && !remote_address(restore_from)) of_function->look_at_checkpoints();
    trials = std::move(of_function);
  } else {
    trials = std::make_unique<TrainerTrials>(parts.make_trainer, storage.place(), settings.run,
                                             events, mirror);
  }
  if (mirror) mirror->checkpoints_are_known();
  return trials;
}

}  // namespace manta
