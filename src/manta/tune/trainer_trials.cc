#include <atomic>
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

  // Reports that the experiment had not received when its driver died come first.
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
  // No answers come any more.
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

// Goes on with the existing run.
void resume(train::Training& training, const std::string& path) {
  train::Training before = train::restore_training(
      path, training.trainer, {training.config, training.scaling, training.run, training.datasets});
  training.restore_from = before.restore_from;
  training.resume_from_checkpoint = before.resume_from_checkpoint;
  training.resume_error = before.resume_error;
  if (before.preprocessor) training.preprocessor = before.preprocessor;
}

}  // namespace

class TrainerTrials::Running {
 public:
  /// With a mirror, `path` is the trial's address, which has not been looked up yet.
  Running(train::Training training, const Trial& trial, const std::shared_ptr<EventQueue>& events,
          train::RunMirror* mirror, const std::string& path)
      : training_(std::move(training)),
        mirror_(mirror),
        callback_(std::make_shared<AskExperiment>(trial.number, trial.attempt, events)) {
    training_.run.callbacks.push_back(callback_);
    train::check_start(training_);
    thread_ = start_thread("the thread of a trial",
                           [this, events, number = trial.number, attempt = trial.attempt, path] {
                             events->push(end_of(number, attempt, [&] {
                               train::ActiveRun active;
                               if (mirror_) find_run(attempt, path);
                               result_ = train::run_training(training_, queue_);
                               return result_;
                             }));
                           });
  }
  ~Running() {
    interrupt();
    callback_->give_up();
    if (thread_.joinable()) thread_.join();
  }

  void answer(int64_t index, Verdict verdict) { callback_->answer(index, verdict); }
  void interrupt() {
    interrupted_ = true;
    queue_.push(train::Interrupted{});
    if (mirror_) mirror_->wake();
  }
  /// Call it once the trial has ended; the path is empty if it ended with an error.
  Result take_result() {
    thread_.join();
    return std::move(result_);
  }

 private:
  void find_run(int attempt, const std::string& path) {
    mirror_->await_journal(Deadline::after(training_.run.storage_timeout), interrupted_);
    if (attempt > 0 && train::is_run_folder(path)) resume(training_, path);
  }

  train::Training training_;
  train::RunMirror* const mirror_;
  train::EventQueue queue_;
  std::shared_ptr<AskExperiment> callback_;
  std::atomic<bool> interrupted_ = false;
  Result result_;
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
  if (run.storage_timeout == defaults.storage_timeout)
    run.storage_timeout = trainer.storage_timeout;
  if (run.folder_mode == defaults.folder_mode) run.folder_mode = trainer.folder_mode;
  if (run.callbacks.empty()) run.callbacks = trainer.callbacks;
  if (run.stop == defaults.stop) run.stop = trainer.stop;
  return run;
}

TrainerTrials::TrainerTrials(MakeTrainer make, std::string place, RunConfig run,
                             std::shared_ptr<EventQueue> events, train::RunMirror* mirror)
    : make_(std::move(make)),
      place_(std::move(place)),
      run_(std::move(run)),
      events_(std::move(events)),
      mirror_(mirror) {}

TrainerTrials::~TrainerTrials() {
  for (auto& [number, running] : running_) running->interrupt();  // all at once
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

std::string TrainerTrials::path_of(const Trial& trial) const {
  std::string name = trial_name(trial.number);
  return mirror_ ? remote_address(place_)->child(name).text() : place_ + "/" + name;
}

train::Training TrainerTrials::training(const Trial& trial) const {
  RunConfig run = run_;
  run.name = trial_name(trial.number);
  run.storage_path = place_;
  run.verbose = false;
  train::Training training = make_(trial.assignment, run)->training();
  if (train::runs_in_driver(training.scaling)) {
    throw Error(ErrorKind::kInvalidArgument,
                "scaling_config.num_workers = 0 runs the loop in this process, which a Tuner, with "
                "several trials, does not: set num_workers = 1, or call fit() of the trainer");
  }
  if (!mirror_ && train::is_run_folder(path_of(trial))) resume(training, path_of(trial));
  return training;
}

void TrainerTrials::start(const Trial& trial) {
  running_[trial.number] =
      std::make_unique<Running>(training(trial), trial, events_, mirror_, path_of(trial));
}

void TrainerTrials::judge(const Judge& judge) {
  auto found = running_.find(judge.trial);
  if (found != running_.end()) found->second->answer(judge.index, judge.verdict);
}

void TrainerTrials::interrupt(uint64_t trial) {
  auto found = running_.find(trial);
  if (found != running_.end()) found->second->interrupt();
}

void TrainerTrials::release(uint64_t trial) {
  auto found = running_.find(trial);
  if (found == running_.end()) return;  // the trial could not begin
  if (mirror_) {
    Result result = found->second->take_result();
    if (!result.path.empty()) results_[trial] = std::move(result);
  }
  running_.erase(found);
}

Result TrainerTrials::result(const Trial& trial) {
  if (auto known = results_.find(trial.number); known != results_.end()) return known->second;
  std::string path = path_of(trial);
  if (!train::is_run_folder(path)) return {};
  return train::read_result(path, run_.checkpoint_config);
}

}  // namespace manta::tune
