#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/io/collective_member_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {
namespace {

constexpr const char* kOutcomes[] = {"finished", "stopped", "paused", "failed", "interrupted"};

constexpr const char* kDecisions[] = {"go on", "restart", "pause", "stop"};

std::string times(int64_t count) { return str(count, count == 1 ? " time" : " times"); }

}  // namespace

std::string participant(int rank) {
  if (rank == kDataReader) return "the data reader";
  if (rank == kDriver) return "the driver";
  return str("rank ", rank);
}

const char* outcome_name(RunOutcome outcome) { return kOutcomes[static_cast<size_t>(outcome)]; }

bool Controller::Pending::has_checkpoint() const {
  return std::any_of(reported.begin(), reported.end(), [](const auto& one) { return one.second; });
}

bool Controller::Pending::complete(int num_workers) const {
  if (static_cast<int>(reported.size()) < num_workers) return false;
  return std::all_of(reported.begin(), reported.end(),
                     [&](const auto& one) { return !one.second || written.count(one.first) > 0; });
}

Controller::Controller(int num_workers, FailureConfig config, Start start)
    : num_workers_(num_workers), config_(config), restart_point_(start) {
  MANTA_CHECK(num_workers > 0, "a run needs workers");
}

std::vector<Action> Controller::begin() {
  MANTA_CHECK(phase_ == Phase::kIdle, "a run begins once");
  start_attempt();
  return std::exchange(actions_, {});
}

std::vector<Action> Controller::handle(const Event& event) {
  std::visit(
      [&](const auto& one) {
        if (phase_ == Phase::kIdle || ended()) return;
        if constexpr (requires { one.attempt; }) {
          if (one.attempt != restart_point_.attempt) return;
        }
        on(one);
      },
      event);
  return std::exchange(actions_, {});
}

void Controller::start_attempt() {
  phase_ = Phase::kRunning;
  if (next_workers_) num_workers_ = *std::exchange(next_workers_, std::nullopt);
  decided_ = Decision::kGoOn;
  ranks_.assign(static_cast<size_t>(num_workers_), RankView{{}, restart_point_.next_report, false});
  pending_.clear();
  next_commit_ = restart_point_.next_report;
  committing_ = group_started_ = group_stopped_ = false;
  asking_ = ask_is_named_ = moves_ = took_stacks_ = false;
  asks_.clear();
  announced_.reset();
  cause_.reset();
  Json from = restart_point_.checkpoint ? Json(*restart_point_.checkpoint) : Json();
  add(Note{kAttemptStarted,
           {{"checkpoint", from}, {"next_report", restart_point_.next_report}},
           restart_point_.attempt});
  add(StartGroup{restart_point_.attempt, restart_point_.checkpoint, restart_point_.next_report,
                 num_workers_});
}

void Controller::on(const GroupStarted& event) {
  if (phase_ != Phase::kRunning || std::exchange(group_started_, true)) return;
  add(Note{kGroupStarted, {{"workers", num_workers_}}, event.attempt});
}

void Controller::on(const Reported& event) {
  if (phase_ != Phase::kRunning) return;
  MANTA_CHECK(event.rank >= 0 && event.rank < num_workers_, str("rank ", event.rank));
  RankView& rank = ranks_[static_cast<size_t>(event.rank)];
  if (event.index != rank.reports || rank.finished) {
    return fail({event.rank, ErrorKind::kCorrupt,
                 str("it made report ", event.index, " when ",
                     rank.finished ? "it had finished" : str("report ", rank.reports, " was due")),
                 false, true});
  }
  ++rank.reports;
  for (int other = 0; other < num_workers_; ++other)
    if (unequal(other, event.rank)) return;

  Pending& report = pending_[event.index];
  if (report.reported.empty()) {
    report.positions = event.positions;
    report.first_rank = event.rank;
  } else if (report.positions != event.positions) {
    return fail({event.rank, ErrorKind::kInvalidArgument,
                 str("workers are at different places in the data at report ", event.index,
                     ": rank ", report.first_rank, " at ", to_text(report.positions), ", rank ",
                     event.rank, " at ", to_text(event.positions),
                     "; between two reports every worker must take the same number of batches from "
                     "each data set"),
                 false, true});
  }
  if (event.rank == 0) report.metrics = event.metrics;
  report.reported[event.rank] = event.has_checkpoint;
  if (event.fingerprint) report.fingerprints[event.rank] = *event.fingerprint;
  if (event.trained_alone) report.trained_alone = event.rank;
  if (event.needs_all_ranks) report.parts.insert(event.rank);
  if (static_cast<int>(report.reported.size()) == num_workers_) {
    if (lacks_parts(event.index, report)) return;
    add(Gathered{event.attempt, event.index});
  }
  commit_next();
}

void Controller::on(const Wrote& event) {
  if (phase_ != Phase::kRunning || event.index < next_commit_) return;
  MANTA_CHECK(event.rank >= 0 && event.rank < num_workers_, str("rank ", event.rank));
  int64_t reports = ranks_[static_cast<size_t>(event.rank)].reports;
  if (event.index >= reports) {  // the report would never be complete
    return fail({event.rank, ErrorKind::kCorrupt,
                 str("it wrote the checkpoint of report ", event.index, " when report ", reports,
                     " was due"),
                 false, true});
  }
  pending_[event.index].written.emplace(event.rank, event.files);
  commit_next();
}

void Controller::on(const Waits& event) {
  if (phase_ != Phase::kRunning) return;
  MANTA_CHECK(event.rank >= 0 && event.rank < num_workers_, str("rank ", event.rank));
  RankView& rank = ranks_[static_cast<size_t>(event.rank)];
  if (rank.finished) return;  // the message came late
  rank.activity = event.activity;
  stands_still();
}

// Ranks that have diverged wait for each other for ever.
bool Controller::stands_still() {
  auto found = find_standstill(ranks_);
  if (!found) return false;
  take_stacks();
  fail({found->rank, ErrorKind::kInvalidArgument, found->message, false, true});
  return true;
}

// Takes stacks at once, before other ranks give up waiting; and only once: the first are the best.
void Controller::take_stacks() {
  if (!std::exchange(took_stacks_, true)) add(TakeStacks{restart_point_.attempt});
}

void Controller::on(const Finished& event) {
  if (phase_ != Phase::kRunning) return;
  MANTA_CHECK(event.rank >= 0 && event.rank < num_workers_, str("rank ", event.rank));
  RankView& rank = ranks_[static_cast<size_t>(event.rank)];
  rank.finished = true;
  rank.activity.collectives = event.collectives;
  rank.activity.passes = event.passes;
  asks_[event.rank] = event.asks;
  moves_ = moves_ || event.told;
  for (int other = 0; other < num_workers_; ++other)
    if (unequal(event.rank, other)) return;
  if (stands_still()) return;
  name_the_ask();
  stop_if_done();
}

// A rank that has finished cannot make the reports that another has made.
bool Controller::unequal(int finished, int other) {
  const RankView& less = ranks_[static_cast<size_t>(finished)];
  const RankView& more = ranks_[static_cast<size_t>(other)];
  if (!less.finished || less.reports >= more.reports) return false;
  fail({finished, ErrorKind::kInvalidArgument,
        str("it finished after it had reported ", times(less.reports), ", but rank ", other,
            " has reported ", times(more.reports),
            "; every worker must call train::report equally often"),
        false, true});
  return true;
}

void Controller::on(const Failed& event) {
  // When all work is done, the loss of a worker does not matter.
  if (phase_ != Phase::kRunning || all_work_is_done()) return;
  if (event.failure.kind == ErrorKind::kTimeout) take_stacks();
  bool consequence = event.failure.consequence && event.failure.rank != kDataReader;
  if (!consequence) return fail(event.failure);
  if (event.activity && event.failure.rank >= 0 && event.failure.rank < num_workers_) {
    ranks_[static_cast<size_t>(event.failure.rank)].activity = *event.activity;
    if (stands_still()) return;
    if (event.failure.kind == ErrorKind::kTimeout) {
      if (auto likely = find_standstill(ranks_, Evidence::kLikely))
        return fail({likely->rank, ErrorKind::kTimeout,
                     str(likely->message, " (", event.failure.message, ")")});
    }
  }
  if (cause_) return;
  cause_ = event.failure;
  add(StartTimer{event.attempt, kWaitForCause});
}

void Controller::on(const TimerFired&) {
  if (phase_ == Phase::kRunning && cause_) stop();
}

void Controller::on(const CommitDone& event) {
  if (!committing_ || announced_ || event.index != next_commit_) return;
  if (!event.error.empty()) {
    committing_ = false;
    return fail_in_driver(event.kind, event.error, event.fatal);
  }
  bool has_checkpoint = pending_[event.index].has_checkpoint();
  if (has_checkpoint) {
    restart_point_.checkpoint = event.index;
    restart_point_.next_report = event.index + 1;
  }
  pending_.erase(event.index);
  ++next_commit_;
  announced_ = event.index;
  add(Announce{event.attempt, event.index, has_checkpoint});
}

void Controller::on(const Judged& event) {
  if (announced_ != event.index) return;
  announced_.reset();
  committing_ = false;
  if (!event.error.empty()) return fail_in_driver(event.kind, event.error, event.fatal);
  decided_ = event.decision;
  if (decided_ != Decision::kGoOn) {
    add(Note{kDecided,
             {{"report", event.index}, {"decision", kDecisions[decided_]}},
             restart_point_.attempt});
  }
  if (event.num_workers) next_workers_ = event.num_workers;
  if (phase_ == Phase::kStopping) return conclude();
  if (decided_ != Decision::kGoOn) return stop();
  add(Acknowledge{event.attempt, event.index});
  commit_next();
  stop_if_done();
}

void Controller::on(const GroupStopped&) {
  if (phase_ != Phase::kStopping) return;
  group_stopped_ = true;
  conclude();
}

// Not a failure of the attempt, which has not begun: the next one starts further back, and each
// time there is one checkpoint less.
void Controller::on(const CheckpointDamaged& event) {
  if (phase_ != Phase::kRunning) return;
  restart_point_.checkpoint = event.before;
  restart_point_.next_report = event.before ? *event.before + 1 : 0;
  ++restart_point_.attempt;
  start_attempt();
}

// This is not a failure of the attempt, either.
void Controller::on(const Resized& event) {
  if (phase_ != Phase::kRunning) return;
  next_workers_ = event.num_workers;
  ++restart_point_.attempt;
  start_attempt();
}

void Controller::on(const Interrupted&) {
  bool goes_on = cause_ || decided_ == Decision::kRestart || moves_;
  bool finished = phase_ == Phase::kStopping && !goes_on;
  if (interrupted_ || asked_to_end_ || finished) return;
  add(Note{kInterrupted, Json::object(), restart_point_.attempt});
  if (phase_ != Phase::kRunning || !group_started_) return end_by_interrupt();
  asked_to_end_ = true;
  add(StartGrace{});
  ask_to_stop();
}

void Controller::on(const GraceIsOver&) {
  if (!asked_to_end_ || phase_ != Phase::kRunning) return;
  add(
      Warn{"the loop has not returned within RunConfig::stop_grace after it was asked to stop: it "
           "is ended, and goes on from its last checkpoint when the run is restored"});
  end_by_interrupt();
}

// A group that has not begun loses nothing by beginning elsewhere.
void Controller::on(const NodeDrains&) {
  if (phase_ != Phase::kRunning) return;
  if (group_started_) return ask_to_stop();
  cause_.reset();
  moves_ = true;
  stop();
}

void Controller::end_by_interrupt() {
  interrupted_ = true;
  if (phase_ == Phase::kRunning) stop();
}

void Controller::ask_to_stop() {
  if (std::exchange(asking_, true)) return;
  add(AskGroupToStop{restart_point_.attempt});
}

void Controller::on(const Asks& event) {
  if (phase_ != Phase::kRunning || !asking_) return;
  MANTA_CHECK(event.rank >= 0 && event.rank < num_workers_, str("rank ", event.rank));
  asks_.emplace(event.rank, event.count);
  name_the_ask();
}

// The first call of should_stop that no rank has answered. A rank that has finished makes no more
// calls, and the others make no call that it has not made, if they ask at the same places.
void Controller::name_the_ask() {
  if (!asking_ || ask_is_named_ || static_cast<int>(asks_.size()) < num_workers_) return;
  ask_is_named_ = true;
  int64_t most = 0;
  bool all_finished = true;
  for (const auto& [rank, count] : asks_) {
    most = std::max(most, count);
    all_finished = all_finished && ranks_[static_cast<size_t>(rank)].finished;
  }
  if (asked_to_end_ && most == 0 && !all_finished) return end_by_interrupt();  // it does not ask
  add(StopGroupFrom{restart_point_.attempt, most + 1});
}

// Acts like a callback's decision to stop, which comes with a report.
void Controller::on(const TimeIsUp&) {
  time_is_up_ = true;
  if (phase_ == Phase::kRunning) stop();
}

void Controller::commit_next() {
  auto next = pending_.find(next_commit_);
  if (committing_ || next == pending_.end() || !next->second.complete(num_workers_)) return;
  const Pending& report = next->second;
  if (report.has_checkpoint()) {
    if (is_empty_checkpoint(report)) return;
    warn_of_different_models(report);
  }
  committing_ = true;
  add(Commit{restart_point_.attempt, next_commit_, report.metrics, report.positions,
             report.has_checkpoint(), report.written});
}

// A checkpoint without files: nothing could go on from it.
bool Controller::is_empty_checkpoint(const Pending& report) {
  for (const auto& [rank, files] : report.written)
    if (!files.empty()) return false;
  std::vector<int> givers;
  for (const auto& [rank, has_checkpoint] : report.reported)
    if (has_checkpoint) givers.push_back(rank);
  fail({givers.front(), ErrorKind::kInvalidArgument,
        str("the checkpoint of report ", next_commit_, ", given by ", name_ranks(givers),
            ", has no files",
            givers.front() == 0 ? ""
                                : "; if rank 0 alone writes files, as of a model that all ranks "
                                  "have, rank 0 must give it to train::report, too"),
        false, true});
  return true;
}

// A checkpoint that could not be loaded, of which some ranks gave no part.
bool Controller::lacks_parts(int64_t index, const Pending& report) {
  if (report.parts.empty() || static_cast<int>(report.parts.size()) == num_workers_) return false;
  std::vector<int> givers(report.parts.begin(), report.parts.end()), others;
  for (int rank = 0; rank < num_workers_; ++rank)
    if (!report.parts.contains(rank)) others.push_back(rank);
  fail(
      {others.front(), ErrorKind::kInvalidArgument,
       str("the checkpoint of report ", index, " needs a part of every rank, as that of a sharded ",
           "model does, but only ", name_ranks(givers), " gave one, not ", name_ranks(others),
           "; every rank must give its own to train::report"),
       false, true});
  return true;
}

// Warns once in a run, not at every report. If several ranks give their model, the models are
// compared. If only one rank gives its model, that is suspect if the rank has trained it alone, as
// its source knows. There is no warning for runs of one worker, and for folders of files.
void Controller::warn_of_different_models(const Pending& report) {
  const auto& all = report.fingerprints;
  if (num_workers_ > 1 && all.size() <= 1 && report.trained_alone &&
      !std::exchange(warned_of_models_, true)) {
    return add(Warn{str("only rank ", *report.trained_alone, " of ", num_workers_,
                        " gives its model at report ", next_commit_,
                        ", and has averaged neither it nor its gradients with the others: was ",
                        "prepare_model forgotten? Without it each rank trains a model of its own, ",
                        "and what the others learn is lost")});
  }
  auto other = std::find_if(all.begin(), all.end(),
                            [&](const auto& one) { return one.second != all.begin()->second; });
  if (other == all.end() || std::exchange(warned_of_models_, true)) return;
  add(Warn{str("the model's parameters differ between ranks ", all.begin()->first, " and ",
               other->first, ": was prepare_model forgotten? At report ", next_commit_,
               " each rank trains a model of its own, and only rank 0's is kept")});
}

bool Controller::all_work_is_done() const {
  return std::all_of(ranks_.begin(), ranks_.end(),
                     [](const RankView& rank) { return rank.finished; }) &&
         std::all_of(pending_.begin(), pending_.end(),
                     [&](const auto& one) { return one.second.complete(num_workers_); });
}

void Controller::stop_if_done() {
  if (phase_ != Phase::kRunning || committing_ || !pending_.empty() || !all_work_is_done()) return;
  cause_.reset();
  stop();
}

void Controller::fail(Failure failure) {
  cause_ = std::move(failure);
  stop();
}

// Another attempt would not help if an argument is wrong.
void Controller::fail_in_driver(ErrorKind kind, const std::string& error, bool fatal) {
  Failure failure{kDriver, kind, error, false, fatal || kind == ErrorKind::kInvalidArgument};
  if (phase_ == Phase::kRunning) return fail(std::move(failure));
  if (fatal) cause_ = std::move(failure);  // in place of an earlier cause
  conclude();
}

void Controller::stop() {
  phase_ = Phase::kStopping;
  add(StopGroup{restart_point_.attempt});
}

// Decides what comes after an attempt, once its group is gone and its last commit is decided.
void Controller::conclude() {
  if (!group_stopped_ || committing_) return;
  if (interrupted_) return end({RunOutcome::kInterrupted});
  if (time_is_up_ || decided_ == Decision::kStop) return end({RunOutcome::kStopped});
  if (decided_ == Decision::kPause) return end({RunOutcome::kPaused});
  bool again_or_told = cause_ || decided_ == Decision::kRestart || moves_;
  if (asked_to_end_ && again_or_told) {
    if (cause_) {
      add(Warn{str("while the loop was asked to stop, ",
                   cause_->rank >= 0 ? str("rank ", cause_->rank) : "another process",
                   " failed: ", cause_->message)});
    }
    return end({RunOutcome::kInterrupted});
  }
  if (!cause_) {
    if (!again_or_told) return end({RunOutcome::kFinished});
    ++restart_point_.attempt;
    return start_attempt();
  }
  bool again = decide(config_, failures_, *cause_) == FailureDecision::kRestart;
  ++failures_;
  add(Note{kAttemptFailed,
           {{"rank", cause_->rank},
            {"kind", kind_name(cause_->kind)},
            {"message", cause_->message},
            {"restart", again}},
           restart_point_.attempt,
           cause_->kind});
  if (!again) return end({RunOutcome::kFailed, std::exchange(cause_, std::nullopt)});
  ++restart_point_.attempt;
  start_attempt();
}

void Controller::end(End end) {
  phase_ = Phase::kEnded;
  add(Note{kRunEnded, {{"outcome", outcome_name(end.outcome)}}, restart_point_.attempt});
  add(std::move(end));
}

}  // namespace manta::train
