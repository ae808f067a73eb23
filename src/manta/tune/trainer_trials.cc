#include <condition_variable>
#include <mutex>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/event_queue_internal.h"
#include "manta/train/result_internal.h"
#include "manta/tune/trainer_trials_internal.h"

namespace manta::tune {
namespace {

/// Asks the experiment how a run goes on after each report.
class AskExperiment final : public Callback {
 public:
  AskExperiment(uint64_t trial, int attempt, std::shared_ptr<EventQueue> events)
      : trial_(trial), attempt_(attempt), events_(std::move(events)) {}

  // Those of which the experiment had not heard when its driver died come first.
  void on_run_start(const RunInfo& run) override {
    for (const ReportRecord& report : run.reports) ask(report);
  }
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    return ask(report) == Verdict::kStop ? Decision::stop() : Decision::go_on();
  }

  void answer(int64_t index, Verdict verdict) {
    std::lock_guard lock(mutex_);
    answered_ = index;
    if (verdict == Verdict::kStop) verdict_ = Verdict::kStop;
    changed_.notify_all();
  }
  // Nobody answers any more.
  void give_up() {
    std::lock_guard lock(mutex_);
    given_up_ = true;
    changed_.notify_all();
  }

 private:
  Verdict ask(const ReportRecord& report) {
    events_->push(Reported{trial_, attempt_, report.index, report.metrics, report.time_total_s,
                           !report.checkpoint.empty()});
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return given_up_ || answered_ >= report.index; });
    return verdict_;
  }

  const uint64_t trial_;
  const int attempt_;
  const std::shared_ptr<EventQueue> events_;
  std::mutex mutex_;
  std::condition_variable changed_;
  int64_t answered_ = -1;
  Verdict verdict_ = Verdict::kGoOn;
  bool given_up_ = false;
};

TrialEnded end_of(uint64_t trial, int attempt, const std::function<Result()>& run) {
  TrialEnded event{trial, attempt};
  try {
    event.outcome = run().outcome;
  } catch (const Error& error) {
    event.kind = error.kind();
    event.message = error.what();
    event.outcome =
        event.kind == ErrorKind::kCancelled ? RunOutcome::kInterrupted : RunOutcome::kFailed;
  } catch (const std::exception& error) {
    event.message = error.what();
    event.outcome = RunOutcome::kFailed;
  }
  return event;
}

}  // namespace

class TrainerTrials::Running {
 public:
  Running(train::Training training, const Trial& trial, const std::shared_ptr<EventQueue>& events)
      : training_(std::move(training)),
        callback_(std::make_shared<AskExperiment>(trial.number, trial.attempt, events)) {
    training_.run.callbacks.push_back(callback_);
    train::check_start(training_);
    thread_ = start_thread("the thread of a trial",
                           [this, events, number = trial.number, attempt = trial.attempt] {
                             events->push(end_of(number, attempt, [&] {
                               train::ActiveRun active;
                               return train::run_training(training_, queue_);
                             }));
                           });
  }
  ~Running() {
    interrupt();
    callback_->give_up();
    thread_.join();
  }

  void answer(int64_t index, Verdict verdict) { callback_->answer(index, verdict); }
  void interrupt() { queue_.push(train::Interrupted{}); }

 private:
  train::Training training_;
  train::EventQueue queue_;
  std::shared_ptr<AskExperiment> callback_;
  std::thread thread_;
};

RunConfig run_config_of_trials(const RunConfig& tuner, const RunConfig& trainer) {
  const RunConfig defaults;
  RunConfig run = tuner;
  if (run.name.empty()) run.name = trainer.name;
  if (run.storage_path.empty()) run.storage_path = trainer.storage_path;
  if (run.failure_config.max_failures == defaults.failure_config.max_failures)
    run.failure_config = trainer.failure_config;
  if (run.checkpoint_config == defaults.checkpoint_config)
    run.checkpoint_config = trainer.checkpoint_config;
  if (run.collective_timeout == defaults.collective_timeout)
    run.collective_timeout = trainer.collective_timeout;
  if (run.folder_mode == defaults.folder_mode) run.folder_mode = trainer.folder_mode;
  if (run.callbacks.empty()) run.callbacks = trainer.callbacks;
  if (run.stop == defaults.stop) run.stop = trainer.stop;
  return run;
}

TrainerTrials::TrainerTrials(MakeTrainer make, std::string experiment_folder, RunConfig run,
                             std::shared_ptr<EventQueue> events)
    : make_(std::move(make)),
      folder_(std::move(experiment_folder)),
      run_(std::move(run)),
      events_(std::move(events)) {}

TrainerTrials::~TrainerTrials() {
  for (auto& [number, running] : running_) running->interrupt();  // all at a time
}

std::vector<Resources> TrainerTrials::resources(const Assignment& assignment) {
  try {
    ScalingConfig scaling = make_(assignment, run_)->training().scaling;
    return std::vector<Resources>(static_cast<size_t>(std::max(0, scaling.num_workers)),
                                  train::resources_of_worker(scaling));
  } catch (const Error&) {
    return {};
  }
}

train::Training TrainerTrials::training(const Trial& trial) const {
  RunConfig run = run_;
  run.name = trial_name(trial.number);
  run.storage_path = folder_;
  run.verbose = false;
  train::Training training = make_(trial.assignment, run)->training();
  if (train::runs_in_driver(training.scaling)) {
    throw Error(ErrorKind::kInvalidArgument,
                "scaling_config.num_workers = 0 runs the loop in this process, which a Tuner, with "
                "several trials, does not: set num_workers = 1, or call fit() of the trainer");
  }
  std::string path = folder_ + "/" + training.run.name;
  if (!train::is_run_folder(path)) return training;
  train::Training before = train::restore_training(
      path, training.trainer, {training.config, training.scaling, training.run, training.datasets});
  training.restore_from = before.restore_from;
  training.resume_from_checkpoint = before.resume_from_checkpoint;
  training.resume_error = before.resume_error;
  if (before.preprocessor) training.preprocessor = before.preprocessor;
  return training;
}

void TrainerTrials::start(const Trial& trial) {
  running_[trial.number] = std::make_unique<Running>(training(trial), trial, events_);
}

void TrainerTrials::judge(const Judge& judge) {
  auto found = running_.find(judge.trial);
  if (found != running_.end()) found->second->answer(judge.index, judge.verdict);
}

void TrainerTrials::interrupt(uint64_t trial) {
  auto found = running_.find(trial);
  if (found != running_.end()) found->second->interrupt();
}

void TrainerTrials::release(uint64_t trial) { running_.erase(trial); }

Result TrainerTrials::result(const Trial& trial) {
  std::string path = folder_ + "/" + trial_name(trial.number);
  if (!train::is_run_folder(path)) return {};
  return train::read_result(path, run_.checkpoint_config);
}

}  // namespace manta::tune
