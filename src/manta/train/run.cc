#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/init.h"
#include "manta/core/node.h"
#include "manta/core/session_folder_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/stop_check_internal.h"
#include "manta/train/callbacks_internal.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/disk_thread_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/group_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/params_internal.h"
#include "manta/train/progress_internal.h"
#include "manta/train/result_files_internal.h"
#include "manta/train/result_internal.h"
#include "manta/train/run_storage_internal.h"
#include "manta/train/staging_internal.h"
#include "manta/train/started_workers_internal.h"
#include "manta/train/stop_criteria_internal.h"

namespace manta::train {
namespace {

// After this time, output that standard error did not take is tried again.
constexpr std::chrono::milliseconds kWriteAgain{50};
// How long a group may take to start before the user is told what it waits for.
constexpr std::chrono::seconds kPatience{3};
// How often the run checks whether a node drains.
constexpr std::chrono::seconds kLookForDrains{1};
// For reading the stacks of a group that hangs; the driver does nothing else meanwhile.
constexpr std::chrono::seconds kMostTimeForStacks{20};

std::string name_of(const RunFolder& folder) {
  return std::filesystem::path(folder.path()).filename().string();
}

// The positions in the data sets when the checkpoint was made.
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

// The free resources, on each node if there are several.
std::string free_now() {
  auto all = nodes();
  if (all.size() == 1) return to_string(all.front().free);
  std::string text;
  for (const Node& node : all) {
    text += str(text.empty() ? "" : ", ", node.host, ": ", to_string(node.free));
  }
  return text;
}

/// Performs the controller's actions, and reports the outcomes to it.
class Run {
 public:
  Run(const Training& training, EventQueue& events)
      : training_(training),
        events_(events),
        storage_(RunStorage::open(training, [&events] { events.wake(); })),
        folder_(storage_.folder.get()),
        mirror_(storage_.mirror.get()),
        store_(open_store(training, storage_)),
        callbacks_(callbacks_of(training, folder_->path())),
        progress_(name_of(*folder_), training.run.verbose, ::isatty(STDERR_FILENO) == 1,
                  ranks_of(training.scaling)) {
    if (training.last_run) {
      training.last_run->set(storage_.place(), folder_->path(), training.run.checkpoint_config);
    }
  }

  Result execute() {
    for (RunOutcome outcome : {RunOutcome::kFinished, RunOutcome::kStopped}) {
      if (folder_->history().outcome() != outcome_name(outcome)) continue;
      callbacks_.on_run_start(info());
      callbacks_.on_run_end(info(), outcome);
      require_stored(outcome, store_the_rest());
      Result known = result(outcome);
      storage_.remove_spool();
      return known;
    }
    Controller::Start start;
    try {
      if (training_.run.checkpoint_config.fsync) folder_->make_durable();
      for (const auto& [name, dataset] : training_.datasets)
        progress_.expect(name, dataset.plan()->estimated_rows());
      start = find_start();
      prepare();
      callbacks_.on_run_start(info());
    } catch (...) {
      give_up(training_, storage_);
      throw;
    }
    auto began = Clock::now();
    limit_time(false);
    try {
      attempt_until_the_end(start);
    } catch (const Error& error) {  // an error that no attempt can mend
      throw_with_place(error.kind(), error.what(), end_early());
    } catch (...) {
      if (std::string missing = end_early(); !missing.empty()) log_warning(missing);
      throw;
    }
    group_.reset();
    clean_up_at_the_end();
    std::exception_ptr thrown;  // by a callback
    try {
      end_callbacks();
    } catch (const Error&) {
      thrown = std::current_exception();
    }
    std::string missing = store_the_rest();
    if (thrown) {
      if (!missing.empty()) log_warning(missing);
      std::rethrow_exception(thrown);
    }
    if (end_.outcome == RunOutcome::kInterrupted) {
      if (missing.empty()) storage_.remove_spool();
      throw Error(ErrorKind::kCancelled,
                  training_.results
                      ? str("the run was interrupted; it is in ",
                            missing.empty() ? storage_.place() : folder_->path(),
                            missing.empty() ? "" : "\n  ", missing)
                      : str("the run was interrupted; ", training_.trainer, "::restore(\"",
                            missing.empty() ? storage_.place() : folder_->path(),
                            "\", ...) goes on with it", missing.empty() ? "" : "\n  ", missing));
    }
    if (end_.failure) throw_failure(*end_.failure, missing);
    require_stored(end_.outcome, missing);
    Result finished = result(end_.outcome);
    storage_.remove_spool();
    progress_.say(str(outcome_name(end_.outcome),
                      end_.outcome == RunOutcome::kFinished ? " in " : " after ",
                      short_time(std::chrono::duration<double>(Clock::now() - began).count()),
                      finished.metrics.is_null() ? "" : ": " + summarize(finished.metrics)));
    progress_.say("results in " + storage_.place());
    return finished;
  }

 private:
  static Callbacks callbacks_of(const Training& training, const std::string& folder) {
    std::vector<std::shared_ptr<Callback>> all{std::make_shared<ResultFiles>(folder),
                                               std::make_shared<StopAtCriteria>(training.run.stop)};
    all.insert(all.end(), training.run.callbacks.begin(), training.run.callbacks.end());
    return Callbacks(std::move(all));
  }

  // The run cannot begin.
  static void give_up(const Training& training, RunStorage& storage) {
    if (training.restore_from.empty()) {
      storage.forget();
    } else if (remote_address(training.restore_from)) {
      storage.discard_spool();  // the spool has nothing that the store lacks
    }
  }

  static CheckpointStore open_store(const Training& training, RunStorage& storage) try {
    return CheckpointStore(storage.folder->path(), training.run.checkpoint_config,
                           storage.mirror.get());
  } catch (const Error&) {
    give_up(training, storage);
    throw;
  }

  // Returns what is not in the store, and why; empty if everything is, or if there is no store.
  std::string store_the_rest() {
    if (!mirror_) return "";
    if (training_.workers) training_.workers->move_logs(folder_->path() + "/logs");
    store_.keep_only_the_best();  // the store may have others, from before it was away
    auto wait = [&](Deadline until) {
      auto item = events_.pop(until);
      bool asked = item && item->event && std::holds_alternative<Interrupted>(*item->event);
      // A run that ends because it was interrupted is stored, too; there may have been a second
      // interrupt.
      if (asked && end_.outcome != RunOutcome::kInterrupted) storing_was_interrupted_ = true;
      return storing_was_interrupted_;
    };
    std::string missing = mirror_->finish(training_.run.storage_timeout, wait,
                                          [&](const std::string& text) { progress_.say(text); });
    if (missing.empty()) return "";
    return str(missing, "\n  all of it is in ", folder_->path(),
               mirror_->superseded().empty() && !training_.results
                   ? ": restore() with that path stores the rest, once the store is there again"
                   : "");
  }

  void require_stored(RunOutcome outcome, const std::string& missing) const {
    if (missing.empty()) return;
    throw Error(
        storing_was_interrupted_ ? ErrorKind::kCancelled : ErrorKind::kIo,
        str("the run has ", outcome_name(outcome), ", but not all of it is stored: ", missing));
  }

  RunInfo info() const {
    return {name_of(*folder_), folder_->path(), training_.config, training_.scaling,
            folder_->history().reports()};
  }

  // Where the run begins, or goes on.
  Controller::Start find_start() {
    Controller::Start start;
    if (!training_.restore_from.empty()) check_capacity(training_.scaling);
    store_.clean_up();
    if (!training_.restore_from.empty()) {
      auto latest = store_.find_latest_valid();
      if (!latest && !folder_->history().checkpoints().empty()) warn_of_new_beginning();
      start = folder_->resume(latest);
    }
    checked_ = start.checkpoint;
    return start;
  }

  // Prepares what the workers get from the user's options, and what a restored run would need to
  // know.
  void prepare() {
    prepared_ = training_;
    if (runs_in_driver(training_.scaling)) prepared_.run.collective_timeout = kLongestTimeout;
    if (training_.preprocessor) {
      Preprocessor& preprocessor = *training_.preprocessor;
      if (!preprocessor.is_fitted()) fit(preprocessor);
      for (auto& [name, dataset] : prepared_.datasets) dataset = preprocessor.transform(dataset);
      prepared_.checkpoint_files[kPreprocessorFile] =
          readable_text(preprocessor.to_json(), "what the preprocessor has learned",
                        "let it keep less", kPreprocessorLimits);
    }
    Json params = params_of(training_);
    if (params != folder_->params()) set_params(std::move(params));
    progress_.set_workers(ranks_of(training_.scaling));
  }

  // The only thread that handles interrupts is busy with the fit.
  void fit(Preprocessor& preprocessor) {
    data::StopCheck check([this] { return events_.interrupted(); });
    try {
      preprocessor.fit(training_.datasets.at("train"));
    } catch (const std::exception&) {
      if (!events_.interrupted()) throw;
      throw Error(ErrorKind::kCancelled,
                  str("the run was interrupted while its preprocessor, ", preprocessor.to_string(),
                      ", was fitted; ",
                      training_.restore_from.empty() ? "it has not begun: start it again"
                                                     : "restore it again to go on with it"));
    }
  }

  void set_params(Json params) {
    folder_->set_params(std::move(params));
    if (mirror_) mirror_->params_changed();
  }

  // Another driver commits to the run now: this one must not go on.
  void end_if_superseded(Controller& controller) {
    std::string why = mirror_ ? mirror_->superseded() : "";
    if (why.empty()) return;
    Failure failure{kDriver, ErrorKind::kIo, std::move(why)};
    failure.fatal = true;
    perform(controller.handle(Failed{controller.attempt(), std::move(failure)}));
  }

  // Without its folder no attempt can go on. Workers, the data reader and commits notice that with
  // other errors, which would hide the cause.
  void explain(Event& event) const {
    auto explain_error = [&](std::string& error, ErrorKind& kind, bool& fatal) {
      if (error.empty() || !folder_->is_gone()) return false;
      error = str("the run folder '", folder_->path(),
                  "' was removed or moved while the run went on, so that it cannot go on: ", error);
      kind = ErrorKind::kIo;
      fatal = true;
      return true;
    };
    if (auto* failed = std::get_if<Failed>(&event)) {
      Failure& failure = failed->failure;
      if (!explain_error(failure.message, failure.kind, failure.fatal)) return;
      failure.rank = kDriver;
      failure.consequence = false;
    } else if (auto* done = std::get_if<CommitDone>(&event)) {
      explain_error(done->error, done->kind, done->fatal);
    } else if (auto* judged = std::get_if<Judged>(&event)) {
      explain_error(judged->error, judged->kind, judged->fatal);
    }
  }

  void attempt_until_the_end(const Controller::Start& start) {
    Controller controller(workers_for_now(training_.scaling), training_.run.failure_config, start);
    perform(controller.begin());
    while (!controller.ended()) {
      auto item = events_.pop(next_deadline());
      say_if_waiting();
      progress_.write();
      if (item && item->step) item->step();
      if (item && item->progress) progress_.update(*item->progress);
      if (item && item->epoch) announce(item->epoch->first, item->epoch->second);
      if (time_limit_.passed()) {
        time_limit_ = Deadline::never();
        perform(controller.handle(TimeIsUp{}));
      }
      if (grace_.passed()) {
        grace_ = Deadline::never();
        perform(controller.handle(GraceIsOver{}));
      }
      look_for_drains();
      end_if_superseded(controller);
      if (item && item->event) {
        explain(*item->event);
        perform(controller.handle(*item->event));
      } else if (!item && timer_ && timer_->second.passed()) {  // no earlier events are left
        int attempt = std::exchange(timer_, std::nullopt)->first;
        perform(controller.handle(TimerFired{attempt}));
      }
    }
  }

  // StopCriteria::time passes only while there is a group: a run that waits for resources, or for a
  // node to come, loses nothing of it. If the time is used up already, the run ends at once.
  void limit_time(bool has_group) {
    auto limit = training_.run.stop.time;
    if (limit.count() == 0) return;
    std::chrono::duration<double> used(std::min(folder_->history().seconds_with_workers(),
                                                std::chrono::duration<double>(limit).count()));
    auto left = limit - std::chrono::duration_cast<std::chrono::milliseconds>(used);
    bool passes = has_group || left.count() <= 0;
    time_limit_ = passes ? Deadline::after(left) : Deadline::never();
  }

  void end_callbacks() {
    try {
      callbacks_.on_run_end(info(), end_.outcome);
    } catch (const Error& error) {
      if (end_.outcome != RunOutcome::kFailed && end_.outcome != RunOutcome::kInterrupted) throw;
      log_warning(error.what());
    }
  }

  Deadline next_deadline() const {
    Deadline next = timer_ ? timer_->second : Deadline::never();
    auto at_latest = [&](std::chrono::nanoseconds delay) {
      Deadline other = Deadline::after(delay);
      if (other.at() < next.at()) next = other;
    };
    for (const Deadline& other : {time_limit_, grace_})
      if (other.at() < next.at()) next = other;
    if (group_ && group_->has_other_nodes()) at_latest(kLookForDrains);
    if (waits_since_) at_latest(*waits_since_ + kPatience - Clock::now());
    if (progress_.has_more_to_write()) at_latest(kWriteAgain);
    return next;
  }

  // Says so if a group cannot start because others hold its resources.
  void say_if_waiting() {
    if (!waits_since_ || Clock::now() - *waits_since_ < kPatience) return;
    waits_since_.reset();
    std::string why = group_ ? group_->why_waits() : "";
    progress_.say(str("waiting for ", training_.scaling.num_workers, " times ",
                      to_string(resources_of_worker(training_.scaling)), "; free now: ", free_now(),
                      why.empty() ? "" : "; " + why));
  }

  void perform(const std::vector<Action>& actions) {
    for (const auto& action : actions) std::visit([&](const auto& each) { perform(each); }, action);
  }

  void warn_of_new_beginning() const {
    log_warning(str("no checkpoint in '", folder_->path(),
                    "' can be used any more: the run begins anew, and reports that it had made "
                    "are made again"));
  }

  // A failure to start counts like any other, and is in the journal. But if the user's options are
  // wrong from the outset, fit() throws at once.
  void perform(const StartGroup& action) {
    limit_time(false);
    try {
      start_group(action);
    } catch (const Error& error) {
      bool asked_for =
          error.kind() == ErrorKind::kInvalidArgument || error.kind() == ErrorKind::kResources;
      if (asked_for && !had_group_) throw;
      Failure failure{kDriver, error.kind(), error.what()};
      // The first checkpoint is damaged; or nodes are lost, and no others will come.
      failure.fatal = is_damage(error) || error.kind() == ErrorKind::kResources;
      events_.push(Failed{action.attempt, std::move(failure)});
    }
  }

  void start_group(const StartGroup& action) {
    Group::Plan plan;
    plan.attempt = action.attempt;
    plan.next_report = action.next_report;
    plan.run_folder = folder_->path();
    plan.run_name = name_of(*folder_);
    plan.in_driver = runs_in_driver(training_.scaling);
    if (action.checkpoint) {
      // The checkpoint may have been damaged since its commit: then every attempt to go on from it
      // would fail.
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
    try {
      store_.clean_up();
    } catch (const Error& error) {  // every attempt would only fail with this error
      Failure failure{kDriver, error.kind(), error.what()};
      failure.fatal = true;
      return events_.push(Failed{action.attempt, std::move(failure)});
    }
    if (changes_) {
      training_ = *std::exchange(changes_, std::nullopt);
      prepare();
    }
    int workers = workers_for_now(training_.scaling);
    if (workers != action.num_workers) {
      progress_.say(str("there is room for ", workers, " of ", training_.scaling.num_workers,
                        " workers now"));
      events_.push(Resized{action.attempt, workers});
      return;
    }
    prepared_.scaling.num_workers = workers;
    progress_.set_workers(workers);
    group_ = std::make_unique<Group>(prepared_, std::move(plan), events_);
    had_group_ = true;
    attempt_ = action.attempt;
    waits_since_ = Clock::now();
  }

  void perform(const StopGroup& action) {
    timer_.reset();
    if (group_) group_->stop();  // null if its checkpoint was damaged
    time_limit_ = Deadline::never();
    events_.push(GroupStopped{action.attempt});
  }

  void perform(const StartTimer& action) {
    timer_ = {action.attempt, Deadline::after(action.delay)};
  }

  void perform(const AskGroupToStop&) { group_->ask_to_stop(); }
  void perform(const StopGroupFrom& action) { group_->stop_from(action.ask); }
  void perform(const TakeStacks& action) {
    if (!group_) return;  // it could not be started in time
    std::string path = str(folder_->path(), "/logs/stacks-", action.attempt, ".txt");
    try {
      std::string text = group_->stacks(Deadline::after(kMostTimeForStacks));
      replace_file(path, text);
      stacks_ = {action.attempt, path};
    } catch (const Error& error) {
      log_warning(str("the stacks of a group that hangs could not be written: ", error.what()));
    }
  }

  // The path of the stacks file, for a message; empty if this attempt has none.
  std::string where_stacks_are(int attempt, const char* before) const {
    return stacks_.first == attempt ? str(before, "the stacks of its processes: ", stacks_.second)
                                    : "";
  }

  void perform(const StartGrace&) { grace_ = Deadline::after(training_.run.stop_grace); }

  // One commit at a time, in steps. If the disk is slow, another thread waits for it, and the next
  // step comes as an event: meanwhile the loop's reports, and everything else, are handled.
  void perform(const Commit& action) {
    commit_ = action;
    commit_step([this] {
      if (folder_->is_gone()) throw Error(ErrorKind::kIo, "a report cannot be committed");
      if (!commit_.has_checkpoint) return enter("");
      store_.prepare({commit_.index, commit_.attempt, prepared_.scaling.num_workers,
                      commit_.metrics, commit_.positions},
                     with_own_files(commit_));
      auto publish = [this] {
        folder_->sync();  // the reports before it: a restored run would not make them again
        store_.publish([this] { tell_of_writing(); });
      };
      after_disk(publish, [this] {
        store_.adopt();
        enter(checkpoint_name(commit_.index));
      });
    });
  }

  void enter(const std::string& checkpoint) {
    folder_->report(commit_.attempt, commit_.index, commit_.metrics, commit_.positions, checkpoint);
    auto end = [this, checkpoint] {
      if (commit_.has_checkpoint) store_.keep_only_the_best();
      progress_.report(commit_.index, commit_.metrics, checkpoint);
      events_.push(CommitDone{commit_.attempt, commit_.index, {}, ErrorKind::kIo});
    };
    if (!commit_.has_checkpoint) return end();
    after_disk([this] { folder_->sync(); }, end);
  }

  void after_disk(std::function<void()> job, std::function<void()> next) {
    if (!training_.run.checkpoint_config.fsync) {
      job();
      return next();
    }
    disk_.add([this, job = std::move(job), next = std::move(next)] {
      std::exception_ptr thrown;
      try {
        job();
      } catch (...) {
        thrown = std::current_exception();
      }
      events_.push_step([this, thrown, next] {
        commit_step([&] {
          if (thrown) std::rethrow_exception(thrown);
          next();
        });
      });
    });
  }

  void commit_step(const std::function<void()>& step) {
    try {
      step();
    } catch (const Error& error) {
      events_.push(CommitDone{commit_.attempt, commit_.index, error.what(), error.kind()});
    }
  }

  // Any thread may call it: the loops keep waiting for the commit while it makes progress.
  void tell_of_writing() {
    events_.push_step([this] {
      if (group_) group_->tell_of_writing();
    });
  }

  std::map<int, std::vector<CheckpointFile>> with_own_files(const Commit& action) {
    auto files = action.files;
    if (prepared_.checkpoint_files.empty()) return files;
    CheckpointFolder own(
        make_staging_folder(folder_->path(), action.attempt, action.index, kDriver));
    for (const auto& [name, text] : prepared_.checkpoint_files) own.write(name, text);
    files[kDriver] = own.files();
    return files;
  }

  void perform(const Announce& action) {
    Judged judged{action.attempt, action.index};
    try {
      if (action.has_checkpoint) {
        if (auto checkpoint = store_.find(action.index))
          callbacks_.on_checkpoint(info(), *checkpoint);
      }
      Decision decision = callbacks_.on_report(info(), folder_->history().reports().back());
      judged.decision = decision.kind;
      if (decision.kind == Decision::kRestart) judged.num_workers = plan_change(decision.changes);
      if (decision.kind == Decision::kGoOn && action.has_checkpoint && should_move())
        judged.decision = Decision::kRestart;
    } catch (const Error& error) {
      judged.error = error.what();
      judged.kind = error.kind();
    }
    events_.push(std::move(judged));
  }

  // Whether the group should leave a node that will be taken away: if the workers could be
  // elsewhere. Otherwise they go on there for as long as they can. If the group left to wait for a
  // replacement, it might come back to the same node.
  bool should_move() {
    std::string node = group_->draining_node();
    if (node.empty()) return false;
    try {
      check_capacity(training_.scaling, WhichNodes::kObtainable);
    } catch (const Error&) {
      return false;
    }
    progress_.say(str("node ", node, " will be taken away: the group is started again elsewhere"));
    return true;
  }

  // A loop that calls should_stop leaves a checkpoint now, not at its next report with one; even if
  // it is not known yet where the group could go on.
  void look_for_drains() {
    if (!group_ || !group_->has_other_nodes() || Clock::now() < next_look_for_drains_) return;
    next_look_for_drains_ = Clock::now() + kLookForDrains;
    if (!group_->draining_node().empty()) events_.push(NodeDrains{attempt_});
  }

  void announce(int attempt, SendEpoch& message) {
    EpochRecord epoch{
        std::move(message.dataset), message.epoch, message.rows, attempt,
        std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count()};
    progress_.epoch(message.begins, epoch.dataset, epoch.epoch, epoch.rows);
    try {
      if (message.begins) {
        callbacks_.on_epoch_start(info(), epoch);
      } else {
        callbacks_.on_epoch_end(info(), epoch);
      }
    } catch (const Error& error) {
      events_.push(Failed{attempt, {kDriver, error.kind(), error.what()}});
    }
  }

  // Plans the next attempt; returns the number of workers.
  int plan_change(AttemptChanges& changes) {
    if (changes.scaling_config && training_.workers) {
      throw Error(ErrorKind::kInvalidArgument,
                  "Decision::restart cannot change the scaling_config of a Trainer, whose workers "
                  "are started already");
    }
    Training next = training_;
    if (changes.scaling_config) next.scaling = *changes.scaling_config;
    if (changes.train_loop_config) next.config = std::move(*changes.train_loop_config);
    check_training(next);
    check_capacity(next.scaling);
    set_params(params_of(next));  // on disk, whatever happens to this process
    changes_ = std::move(next);
    return ranks_of(changes_->scaling);
  }

  void perform(const Gathered& action) { group_->acknowledge(action.index, false); }
  void perform(const Acknowledge& action) { group_->acknowledge(action.index, true); }

  // The user must hear of the attempt's own failure, even if it cannot be written to the journal.
  void keep(const Note& note) {
    try {
      folder_->note(note);
    } catch (const Error& error) {
      if (note.event != kAttemptFailed) throw;
      throw Error(note.failure_kind,
                  str(participant(note.details.at("rank").get<int>()),
                      " failed: ", note.details.at("message").get<std::string>(),
                      "\n  and the journal of the run could not be written: ", error.what()));
    }
  }

  void perform(const Note& note) {
    keep(note);
    if (note.event == kGroupStarted) {
      waits_since_.reset();
      limit_time(true);
    }
    if (note.event == kAttemptFailed) {
      RunFailure failure{participant(note.details.at("rank").get<int>()), note.failure_kind,
                         note.details.at("message").get<std::string>(),
                         note.details.at("restart").get<bool>()};
      try {
        callbacks_.on_failure(info(), failure);
      } catch (const Error& error) {
        log_warning(error.what());
      }
      if (!failure.will_restart) return;  // fit() throws it
      progress_.say(str(failure.who, " failed, the group is started again: ", failure.message,
                        where_stacks_are(note.attempt, "; ")));
    } else if (note.event == kAttemptStarted && note.details.contains("checkpoint") &&
               !note.details["checkpoint"].is_null()) {
      progress_.say("going on from " + checkpoint_name(note.details["checkpoint"]));
    }
  }

  void perform(const Warn& warning) { log_warning(warning.message); }

  void perform(const End& end) { end_ = end; }

  // Empty if there is no log: threads of this process write to its output.
  std::string log_of(int rank) const {
    if (rank < kDataReader || runs_in_driver(training_.scaling)) return "";
    if (rank == kDataReader) return folder_->path() + "/logs/data-reader.log";
    if (training_.workers && !mirror_) return training_.workers->log_of(rank);
    return str(folder_->path(), "/logs/rank-", rank, ".log");
  }

  // Returns what is not stored.
  std::string end_early() {
    group_.reset();
    clean_up_at_the_end();
    end_.outcome = RunOutcome::kFailed;
    end_callbacks();
    return store_the_rest();
  }

  // The user must hear of what ended the run, not of errors here.
  void clean_up_at_the_end() {
    if (folder_->is_gone()) return;
    try {
      store_.clean_up();
    } catch (const Error& error) {
      log_warning(str("what the run has left of unfinished checkpoints stays: ", error.what()));
    }
  }

  // Adds the run's place, and how to go on with it.
  [[noreturn]] void throw_with_place(ErrorKind kind, std::string message,
                                     const std::string& missing) {
    message += str("\n  the run: ", storage_.place());
    auto checkpoints = folder_->history().checkpoints();
    if (!checkpoints.empty()) {
      message += str(", whose last checkpoint is ", checkpoint_name(checkpoints.back()), "; ",
                     folder_->is_gone() ? "once that folder is there again, " : "",
                     training_.results ? "run() with it as `checkpoint` goes on from there"
                                       : "restore() goes on from there");
    }
    if (!missing.empty()) message += str("\n  not all of it is stored: ", missing);
    throw Error(kind, message);
  }

  [[noreturn]] void throw_failure(const Failure& failure, const std::string& missing) {
    std::string message = str(participant(failure.rank), " failed: ", failure.message);
    std::string log = log_of(failure.rank);
    if (!log.empty()) message += "\n  its log: " + log;
    message += where_stacks_are(attempt_, "\n  ");
    throw_with_place(failure.kind, std::move(message), missing);
  }

  Result result(RunOutcome outcome) {
    Result found = result_of_run(storage_.place(), folder_->history(), store_, outcome);
    if (!mirror_) return found;
    found.checkpoint = mirror_->stored(found.checkpoint);
    for (auto& [checkpoint, metrics] : found.best_checkpoints)
      checkpoint = mirror_->stored(checkpoint);
    return found;
  }

  Training training_;                // as it was given; of the current attempt
  Training prepared_;                // what its workers get
  std::optional<Training> changes_;  // of the next attempt
  EventQueue& events_;
  RunStorage storage_;
  RunFolder* const folder_;
  RunMirror* const mirror_;  // null: the run stays in the folder
  CheckpointStore store_;
  Callbacks callbacks_;
  Progress progress_;
  std::unique_ptr<Group> group_;
  bool had_group_ = false;
  std::optional<int64_t> checked_;  // a checkpoint that has just been read
  std::optional<std::pair<int, Deadline>> timer_;
  std::optional<Clock::time_point> waits_since_;
  int attempt_ = 0;                          // of the group
  Deadline time_limit_ = Deadline::never();  // StopCriteria::time
  Deadline grace_ = Deadline::never();       // RunConfig::stop_grace, once it is to end
  Clock::time_point next_look_for_drains_;
  std::pair<int, std::string> stacks_ = {-1, ""};  // attempt and path of the last stacks file
  End end_;
  bool storing_was_interrupted_ = false;  // the user did not want to wait for the store
  Commit commit_;                         // the current commit, or the last one
  DiskThread disk_;                       // of commits, if they wait for the disk
};

}  // namespace

Result run_training(const Training& training, EventQueue& events) {
  return Run(training, events).execute();
}

}  // namespace manta::train
