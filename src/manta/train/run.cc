#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/log.h"
#include "manta/core/client_internal.h"
#include "manta/core/init.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/group_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/progress_internal.h"
#include "manta/train/run_folder_internal.h"

namespace manta::train {
namespace {

// How soon output that standard error did not take is tried again.
constexpr std::chrono::milliseconds kWriteAgain{50};
// How long a group may take to start before the user is told what it waits for.
constexpr std::chrono::seconds kPatience{3};

std::string name_of(int rank) {
  if (rank == kDataReader) return "the data reader";
  if (rank == kDriver) return "the driver";
  return str("rank ", rank);
}

std::string name_of(const RunFolder& folder) {
  return std::filesystem::path(folder.path()).filename().string();
}

// A run starts its processes from the driver. Told before there is a folder, which would keep the
// run's name from being used.
void check_driver(const Training& training) {
  Client::current((training.trainer + "::fit").c_str());  // throws if there is no manta::init
  try {
    current_session_folder();
  } catch (const Error&) {
    throw Error(ErrorKind::kInvalidArgument,
                str(training.trainer,
                    "::fit was called in a task, an actor or a training loop; call it in the "
                    "driver, the program that called manta::init"));
  }
}

// What is in use now is waited for; more than there ever is, is a mistake.
void check_capacity(const ScalingConfig& scaling) {
  Resources each = resources_of_worker(scaling);
  Resources all = cluster_resources();
  auto workers = static_cast<size_t>(scaling.num_workers);
  if (Ledger(all).acquire_all(std::vector<Resources>(workers, each), 0)) return;
  throw Error(ErrorKind::kResources,
              str("scaling_config asks for ", workers, " workers with ", to_string(each),
                  " each, but there is only ", to_string(all),
                  ": set a smaller num_workers, or smaller resources_per_worker (such as {.cpus = "
                  "0.5} to share processors)"));
}

// Where the data sets were when the checkpoint was made.
std::map<std::string, data::Position> positions_in(const Checkpoint& checkpoint) {
  std::map<std::string, data::Position> positions;
  for (const auto& [name, position] : checkpoint.manifest().at("positions").items()) {
    try {
      positions[name] = data::Position::from_json(position, name);
    } catch (const std::exception& error) {
      throw Error(ErrorKind::kCorrupt, str("'", checkpoint.path(), "/manifest.json', positions.",
                                           name, ": ", error.what()));
    }
  }
  return positions;
}

/// Does what the controller decides, and tells it what comes of it.
class Run {
 public:
  Run(const Training& training, EventQueue& events)
      : training_(training),
        events_(events),
        folder_(training.restore_from.empty() ? RunFolder::create(training.run, params_of(training))
                                              : RunFolder::open(training.restore_from)),
        store_(folder_->path(), training.run.checkpoint_config),
        progress_(name_of(*folder_), training.run.verbose, ::isatty(STDERR_FILENO) == 1,
                  training.scaling.num_workers) {
    for (const auto& [name, dataset] : training.datasets) {
      progress_.expect(name, dataset.plan()->estimated_rows());
    }
  }

  Result execute() {
    if (folder_->history().outcome() == "finished") return result();
    if (!training_.restore_from.empty()) check_capacity(training_.scaling);
    Controller::Start start;
    store_.clean_up();
    if (!training_.restore_from.empty()) {
      auto latest = store_.find_latest_valid();
      if (!latest && !folder_->history().checkpoints().empty()) warn_of_new_beginning();
      start = folder_->resume(latest);
    }
    checked_ = start.checkpoint;
    Controller controller(training_.scaling.num_workers, training_.run.failure_config, start);
    auto began = Clock::now();
    perform(controller.begin());
    while (!controller.ended()) {
      auto item = events_.pop(next_deadline());
      say_if_waiting();
      progress_.write();
      if (item && item->progress) progress_.update(*item->progress);
      if (item && item->event) {
        perform(controller.handle(*item->event));
      } else if (timer_ && timer_->second.passed()) {  // nothing that came before it is left
        int attempt = std::exchange(timer_, std::nullopt)->first;
        perform(controller.handle(TimerFired{attempt}));
      }
    }
    group_.reset();
    store_.clean_up();
    if (end_.interrupted) {
      throw Error(ErrorKind::kCancelled,
                  str("the run was interrupted; ", training_.trainer, "::restore(\"",
                      folder_->path(), "\", ...) goes on with it"));
    }
    if (end_.failure) throw_failure(*end_.failure);
    Result finished = result();
    progress_.say(str("finished in ",
                      short_time(std::chrono::duration<double>(Clock::now() - began).count()),
                      finished.metrics.is_null() ? "" : ": " + summarize(finished.metrics)));
    progress_.say("results in " + folder_->path());
    return finished;
  }

 private:
  Deadline next_deadline() const {
    Deadline next = timer_ ? timer_->second : Deadline::never();
    auto at_latest = [&](std::chrono::nanoseconds delay) {
      Deadline other = Deadline::after(delay);
      if (other.at() < next.at()) next = other;
    };
    if (waits_since_) at_latest(*waits_since_ + kPatience - Clock::now());
    if (progress_.has_more_to_write()) at_latest(kWriteAgain);
    return next;
  }

  // A group that cannot start because others hold what it needs.
  void say_if_waiting() {
    if (!waits_since_ || Clock::now() - *waits_since_ < kPatience) return;
    waits_since_.reset();
    progress_.say(str("waiting for ", training_.scaling.num_workers, " times ",
                      to_string(resources_of_worker(training_.scaling)),
                      "; free now: ", to_string(available_resources())));
  }

  void perform(const std::vector<Action>& actions) {
    for (const auto& action : actions) std::visit([&](const auto& each) { perform(each); }, action);
  }

  void warn_of_new_beginning() const {
    log_warning(str("no checkpoint in '", folder_->path(),
                    "' can be used any more: the run begins anew, and reports that it had made "
                    "are made again"));
  }

  // A failure like any other: it counts, and is in the journal. But what is wrong from the outset
  // with what the user asked for, fit() throws at once.
  void perform(const StartGroup& action) {
    try {
      start_group(action);
    } catch (const Error& error) {
      bool asked_for =
          error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kResources;
      if (asked_for && !had_group_) throw;
      Failure failure{kDriver, error.kind(), error.what()};
      failure.fatal = is_damage(error);  // of the checkpoint that the run began with
      events_.push(Failed{action.attempt, std::move(failure)});
    }
  }

  void start_group(const StartGroup& action) {
    Group::Plan plan;
    plan.attempt = action.attempt;
    plan.next_report = action.next_report;
    plan.run_folder = folder_->path();
    plan.run_name = name_of(*folder_);
    if (action.checkpoint) {
      // It may have been damaged since its commit: then every attempt to go on from it would fail.
      bool checked = std::exchange(checked_, std::nullopt) == action.checkpoint;
      auto checkpoint =
          checked ? store_.find(*action.checkpoint) : store_.find_latest_valid(*action.checkpoint);
      std::optional<int64_t> usable;
      if (checkpoint) usable = checkpoint->manifest().at("report").get<int64_t>();
      if (usable != action.checkpoint) {
        if (!usable) warn_of_new_beginning();
        events_.push(CheckpointDamaged{action.attempt, usable});
        return;
      }
      plan.checkpoint = checkpoint->path();
      plan.positions = positions_in(*checkpoint);
    } else {
      if (!training_.resume_error.empty())
        throw Error(ErrorKind::kNotFound, training_.resume_error);
      plan.checkpoint = training_.resume_from_checkpoint.path();
      if (!plan.checkpoint.empty()) Checkpoint::from_directory(plan.checkpoint);
    }
    group_.reset();
    store_.clean_up();
    group_ = std::make_unique<Group>(training_, std::move(plan), events_);
    had_group_ = true;
    waits_since_ = Clock::now();
  }

  void perform(const StopGroup& action) {
    timer_.reset();
    if (group_) group_->stop();  // none if its checkpoint was damaged
    events_.push(GroupStopped{action.attempt});
  }

  void perform(const StartTimer& action) {
    timer_ = {action.attempt, Deadline::after(action.delay)};
  }

  void perform(const Commit& action) {
    CommitDone done{action.attempt, action.index, {}, ErrorKind::kIo};
    try {
      std::string checkpoint;
      if (action.has_checkpoint) {
        store_.commit({action.index, action.attempt, training_.scaling.num_workers, action.metrics,
                       action.positions},
                      action.files);
        checkpoint = checkpoint_name(action.index);
      }
      folder_->report(action.attempt, action.index, action.metrics, action.positions, checkpoint);
      if (action.has_checkpoint) store_.keep_only_the_best();
      progress_.report(action.index, action.metrics, checkpoint);
    } catch (const Error& error) {
      done.error = error.what();
      done.kind = error.kind();
    }
    events_.push(std::move(done));
  }

  void perform(const Acknowledge& action) { group_->acknowledge(action.index); }

  void perform(const Note& note) {
    folder_->note(note);
    if (note.event == kGroupStarted) waits_since_.reset();
    if (note.event == kAttemptFailed) {
      // Otherwise fit() throws it.
      if (!note.details.value("restart", false)) return;
      progress_.say(
          str(name_of(note.details.value("rank", 0)),
              " failed, the group is started again: ", note.details.value("message", "")));
    } else if (note.event == kAttemptStarted && note.details.contains("checkpoint") &&
               !note.details["checkpoint"].is_null()) {
      progress_.say("going on from " + checkpoint_name(note.details["checkpoint"]));
    }
  }

  void perform(const Warn& warning) { log_warning(warning.message); }

  void perform(const End& end) { end_ = end; }

  [[noreturn]] void throw_failure(const Failure& failure) {
    std::string message = str(name_of(failure.rank), " failed: ", failure.message);
    if (failure.rank >= kDataReader) {
      std::string log = failure.rank == kDataReader ? "data-reader" : str("rank-", failure.rank);
      message += str("\n  its log: ", folder_->path(), "/logs/", log, ".log");
    }
    message += str("\n  the run: ", folder_->path());
    auto checkpoints = folder_->history().checkpoints();
    if (!checkpoints.empty()) {
      message += str(", whose last checkpoint is ", checkpoint_name(checkpoints.back()),
                     "; restore() goes on from there");
    }
    throw Error(failure.kind, message);
  }

  Result result() {
    Result result;
    result.path = folder_->path();
    for (const auto& report : folder_->history().reports()) {
      result.metrics_history.push_back(report.metrics);
    }
    if (!result.metrics_history.empty()) result.metrics = result.metrics_history.back();
    result.best_checkpoints = store_.best_checkpoints();
    auto checkpoints = folder_->history().checkpoints();
    if (!checkpoints.empty()) {
      if (auto latest = store_.find(checkpoints.back())) result.checkpoint = *latest;
    }
    return result;
  }

  const Training& training_;
  EventQueue& events_;
  std::unique_ptr<RunFolder> folder_;
  CheckpointStore store_;
  Progress progress_;
  std::unique_ptr<Group> group_;
  bool had_group_ = false;
  std::optional<int64_t> checked_;  // a checkpoint that was read just now
  std::optional<std::pair<int, Deadline>> timer_;
  std::optional<Clock::time_point> waits_since_;
  End end_;
};

}  // namespace

Resources resources_of_worker(const ScalingConfig& scaling) {
  Resources resources = scaling.resources_per_worker;
  if (scaling.use_gpu && resources.gpus == 0) resources.gpus = 1;
  return resources;
}

void check_training(const Training& training) {
  const auto& run = training.run;
  if (training.scaling.num_workers < 1 || training.scaling.num_workers > kMostWorkers) {
    throw Error(ErrorKind::kInvalidArgument,
                str("scaling_config.num_workers must be at ",
                    training.scaling.num_workers < 1 ? "least 1" : str("most ", kMostWorkers),
                    " (was ", training.scaling.num_workers, ")"));
  }
  if (run.collective_timeout.count() <= 0) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.collective_timeout must be positive (was ",
                    run.collective_timeout.count(), " ms)"));
  }
  if (run.collective_timeout > kLongestTimeout) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.collective_timeout must be at most ten years (was ",
                    run.collective_timeout.count(), " ms)"));
  }
  if (run.folder_mode < 0700 || run.folder_mode > 0777) {
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.folder_mode must be from 0700 to 0777 (was 0", std::oct,
                    run.folder_mode, ")"));
  }
  if (run.failure_config.max_failures < -1) {
    throw Error(ErrorKind::kInvalidArgument,
                str("failure_config.max_failures must be -1 (no limit) or more (was ",
                    run.failure_config.max_failures, ")"));
  }
  if (!training.config.is_object() && !training.config.is_null()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("train_loop_config must be a JSON object; received ", short_text(training.config)));
  }
  check_checkpoint_config(run.checkpoint_config);
  check_resources(training.scaling.resources_per_worker, "scaling_config.resources_per_worker");
}

void check_start(const Training& training) {
  check_training(training);
  check_driver(training);
  if (training.restore_from.empty()) check_capacity(training.scaling);
}

Result run_training(const Training& training, EventQueue& events) {
  return Run(training, events).execute();
}

}  // namespace manta::train
