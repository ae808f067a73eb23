#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/how_it_ended_internal.h"
#include "manta/core/init.h"
#include "manta/train/file_internal.h"
#include "manta/tune/function_trials_internal.h"

namespace manta::tune {
namespace {

double seconds_since(Clock::time_point began) {
  return std::chrono::duration<double>(Clock::now() - began).count();
}

}  // namespace

std::string trial_name(uint64_t number) {
  std::string digits = std::to_string(number);
  return "trial_" + std::string(digits.size() < 5 ? 5 - digits.size() : 0, '0') + digits;
}

FunctionTrials::FunctionTrials(Trainable trainable, std::string experiment_folder,
                               std::string metric, CheckpointConfig checkpoints,
                               std::shared_ptr<EventQueue> events, train::RunMirror* mirror)
    : trainable_(std::move(trainable)),
      folder_(std::move(experiment_folder)),
      metric_(std::move(metric)),
      checkpoints_(std::move(checkpoints)),
      events_(std::move(events)),
      mirror_(mirror) {
  server_ =
      std::make_unique<ReportServer>(train::make_driver_entry("tune", folder_),
                                     [this](uint64_t trial, int attempt, SendTrialReport& report) {
                                       return on_report(trial, attempt, report);
                                     });
  watch_->trials = this;
}

FunctionTrials::~FunctionTrials() {
  {
    std::lock_guard lock(mutex_);
    ending_ = true;
  }
  for (auto& [number, thread] : starting_) thread.join();
  {
    std::lock_guard lock(watch_->mutex);
    watch_->trials = nullptr;
  }
  server_.reset();
  for (auto& [number, running] : running_) cancel(running.task, {.force = true});
}

std::string FunctionTrials::folder_of(uint64_t trial) const {
  return folder_ + "/" + trial_name(trial);
}

void FunctionTrials::start(const Trial& trial) {
  Running running;
  running.attempt = trial.attempt;
  TrialCall call;
  call.function = trainable_.function();
  call.returns = trainable_.returns();
  call.metric = metric_;
  call.config = trial.config;
  call.trial = trial.number;
  call.attempt = trial.attempt;
  call.name = trial_name(trial.number);
  call.folder = folder_of(trial.number);
  call.entry = server_->entry();
  if (trial.attempt == 0) begun_here_.insert(trial.number);
  if (mirror_ && !begun_here_.contains(trial.number))
    return start_on_a_thread(trial, std::move(running), std::move(call));
  auto unrecorded = resume(trial, running, call, /*may_be_in_store=*/false);
  launch(trial, std::move(running), call, unrecorded);
}

void FunctionTrials::start_on_a_thread(const Trial& trial, Running running, TrialCall call) {
  auto work = [this, trial, running = std::move(running), call = std::move(call)]() mutable {
    TrialEnded event{trial.number, trial.attempt, RunOutcome::kFailed};
    try {
      auto unrecorded = resume(trial, running, call, /*may_be_in_store=*/true);
      return launch(trial, std::move(running), call, unrecorded);
    } catch (const Error& error) {
      event.kind = error.kind();
      event.message = error.what();
    } catch (const std::exception& error) {
      event.message = error.what();
    }
    events_->push(std::move(event));
  };
  starting_[trial.number] = start_thread("the thread that starts a trial", std::move(work));
}

// The trial has started, or will not: the thread has nothing left to do.
void FunctionTrials::release(uint64_t trial) {
  auto found = starting_.find(trial);
  if (found == starting_.end()) return;
  found->second.join();
  starting_.erase(found);
}

void FunctionTrials::launch(const Trial& trial, Running running, const TrialCall& call,
                            const std::optional<Reported>& unrecorded) {
  server_->expect(
      trial.number, trial.attempt,
      {call.folder, call.checkpoint, {call.checkpoint_files.begin(), call.checkpoint_files.end()}});
  TaskOptions options{.resources = trainable_.resources(), .max_retries = 0, .name = call.name};
  ObjectRef<TrialReturn> task;
  bool unwanted = false;
  {
    std::lock_guard lock(mutex_);  // it may report before `remote` has returned
    unwanted = interrupted_starts_.erase(trial.number) > 0 || ending_;
    if (!unwanted) {
      running.began = Clock::now();
      task = running.task = remote(options, run_function_trial, call);
      running_[trial.number] = std::move(running);
    }
  }
  if (unwanted) {
    server_->forget(trial.number, trial.attempt);
    events_->push(TrialEnded{trial.number, trial.attempt, RunOutcome::kInterrupted});
    return;
  }
  if (unrecorded) events_->push(*unrecorded);
  on_ready(task, [watch = watch_, number = trial.number, attempt = trial.attempt] {
    std::lock_guard lock(watch->mutex);
    if (watch->trials) watch->trials->on_task_done(number, attempt);
  });
}

std::shared_ptr<FunctionTrials::Checkpoints> FunctionTrials::open_checkpoints(uint64_t trial,
                                                                              bool is_new) {
  std::string folder = folder_of(trial);
  train::make_folders(folder);  // a checkpoint without files, from another node, makes no folder
  if (!mirror_)
    return std::make_shared<Checkpoints>(
        Checkpoints{nullptr, train::CheckpointStore(folder, checkpoints_)});
  auto copies = mirror_->copies_of(trial_name(trial), is_new);
  train::CheckpointStore store(folder, checkpoints_, copies.get());
  return std::make_shared<Checkpoints>(Checkpoints{std::move(copies), std::move(store)});
}

void FunctionTrials::look_at_checkpoints() {
  for (const auto& entry : std::filesystem::directory_iterator(folder_)) {
    std::string name = entry.path().filename();
    std::string digits = name.starts_with("trial_") ? name.substr(6) : "";
    bool is_number = !digits.empty() && digits.size() < 18 &&
                     digits.find_first_not_of("0123456789") == std::string::npos;
    if (!is_number || trial_name(std::stoull(digits)) != name) continue;
    if (!train::has_folder(folder_, name)) continue;
    known_[std::stoull(digits)] = open_checkpoints(std::stoull(digits), /*is_new=*/false);
  }
}

std::optional<Reported> FunctionTrials::resume(const Trial& trial, Running& running,
                                               TrialCall& call, bool may_be_in_store) {
  {
    std::lock_guard lock(mutex_);
    auto found = known_.find(trial.number);
    if (found != known_.end()) running.checkpoints = found->second;
  }
  if (!running.checkpoints) {
    bool may_have_some = mirror_ ? may_be_in_store : train::has_folder(folder_, call.name);
    if (!may_have_some) return std::nullopt;
    running.checkpoints = open_checkpoints(trial.number, /*is_new=*/false);
    std::lock_guard lock(mutex_);
    if (mirror_) known_[trial.number] = running.checkpoints;
  }
  running.checkpoints->store.clean_up();
  auto known = static_cast<int64_t>(trial.reports.size());
  // A store may have a later checkpoint, of a driver that was superseded at that very moment.
  auto checkpoint = running.checkpoints->store.find_latest_valid(known);
  if (!checkpoint) return std::nullopt;
  auto index = checkpoint->manifest().at("report").get<int64_t>();
  call.checkpoint = checkpoint->path();
  if (server_->has_other_nodes()) call.checkpoint_files = train::files_to_fetch(*checkpoint);
  call.next_report = index + 1;
  int64_t last = std::min(index, known - 1);
  if (last >= 0) running.seconds_before = trial.reports[static_cast<size_t>(last)].time_total_s;
  // The driver died between the commit and the report's line in the journal.
  if (index != known) return std::nullopt;
  running.unrecorded = index;
  return Reported{trial.number,          trial.attempt,          index,
                  checkpoint->metrics(), running.seconds_before, true};
}

std::optional<SendVerdict> FunctionTrials::on_report(uint64_t trial, int attempt,
                                                     SendTrialReport& report) {
  std::lock_guard lock(mutex_);
  auto found = running_.find(trial);
  if (found == running_.end() || found->second.attempt != attempt) return std::nullopt;
  Running& running = found->second;
  // If this driver dies, too, no checkpoint may be further ahead of the journal than one report.
  if (running.unrecorded) {
    running.held_back = std::move(report);
    return std::nullopt;
  }
  return take_report(trial, running, report);
}

std::optional<SendVerdict> FunctionTrials::take_report(uint64_t trial, Running& running,
                                                       SendTrialReport& report) {
  try {
    if (report.has_checkpoint) commit(running, trial, report);
  } catch (const Error& error) {
    return SendVerdict{report.index, false, error.what()};
  }
  running.waits_for = report.index;
  events_->push(Reported{trial, running.attempt, report.index, std::move(report.metrics),
                         running.seconds_before + seconds_since(running.began),
                         report.has_checkpoint});
  return std::nullopt;
}

void FunctionTrials::commit(Running& running, uint64_t trial, const SendTrialReport& report) {
  if (!running.checkpoints) {
    running.checkpoints = open_checkpoints(trial, /*is_new=*/true);
    if (mirror_) known_[trial] = running.checkpoints;
  }
  running.checkpoints->store.commit(
      {report.index, running.attempt, 1, report.metrics, Json::object()}, {{0, report.files}});
}

void FunctionTrials::judge(const Judge& judge) {
  std::optional<SendVerdict> verdict;
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(judge.trial);
    if (found == running_.end()) return;
    Running& running = found->second;
    // Only now is the report on record: until then a restart begins with the checkpoint before.
    if (running.checkpoints) running.checkpoints->store.keep_only_the_best();
    if (running.unrecorded == judge.index) {  // made before it was started again
      running.unrecorded.reset();
      if (running.held_back) verdict = take_report(judge.trial, running, *running.held_back);
      running.held_back.reset();
    } else if (running.waits_for == judge.index) {
      running.waits_for.reset();
      verdict = SendVerdict{judge.index, judge.verdict == Verdict::kStop, ""};
    }
  }
  if (verdict) server_->answer(judge.trial, judge.attempt, *verdict);
}

void FunctionTrials::on_task_done(uint64_t trial, int attempt) {
  Running ended;
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(trial);
    if (found == running_.end() || found->second.attempt != attempt) return;
    ended = std::move(found->second);
    running_.erase(found);
  }
  server_->forget(trial, attempt);
  TrialEnded event{trial, attempt};
  try {
    TrialReturn returned = get(ended.task, std::chrono::seconds(0));
    if (returned.has_metrics) {
      events_->push(Reported{trial, attempt, returned.report, std::move(returned.metrics),
                             ended.seconds_before + seconds_since(ended.began), false});
    }
  } catch (const Error& error) {
    event.outcome = ended.interrupted ? RunOutcome::kInterrupted : RunOutcome::kFailed;
    event.kind = error.kind();
    event.message = how_it_ended(error);
  }
  events_->push(std::move(event));
}

void FunctionTrials::interrupt(uint64_t trial) {
  ObjectRef<TrialReturn> task;
  {
    std::lock_guard lock(mutex_);
    auto found = running_.find(trial);
    if (found == running_.end()) {
      if (starting_.contains(trial)) interrupted_starts_.insert(trial);
      return;
    }
    found->second.interrupted = true;
    task = found->second.task;
  }
  cancel(task, {.force = true});
}

Result FunctionTrials::result(const Trial& trial) {
  Result result;
  for (const TrialReport& report : trial.reports) result.metrics_history.push_back(report.metrics);
  if (!trial.reports.empty()) result.metrics = trial.reports.back().metrics;
  if (mirror_) return stored_result(trial, std::move(result));
  if (!train::has_folder(folder_, trial_name(trial.number))) return result;
  result.path = folder_of(trial.number);
  train::CheckpointStore store(result.path, checkpoints_);
  result.best_checkpoints = store.best_checkpoints();
  if (auto latest = store.find_latest_valid()) result.checkpoint = *latest;
  return result;
}

// Everything is at the address by now: nothing is fetched.
Result FunctionTrials::stored_result(const Trial& trial, Result result) {
  auto found = known_.find(trial.number);
  bool had_some = std::any_of(trial.reports.begin(), trial.reports.end(),
                              [](const TrialReport& report) { return report.has_checkpoint; });
  if (found == known_.end() && !had_some) return result;
  auto checkpoints = found != known_.end() ? found->second : open_checkpoints(trial.number, false);
  std::string name = trial_name(trial.number);
  int64_t latest = -1;
  for (auto& [checkpoint, metrics] : checkpoints->store.best_checkpoints()) {
    auto index = checkpoint.manifest().at("report").get<int64_t>();
    Checkpoint stored = mirror_->stored(checkpoint, name);
    if (index > std::exchange(latest, std::max(latest, index))) result.checkpoint = stored;
    result.best_checkpoints.emplace_back(std::move(stored), metrics);
  }
  if (latest >= 0) result.path = remote_address(mirror_->address())->child(name).text();
  return result;
}

}  // namespace manta::tune
