// A simulated world around the controller: workers that meet in collectives, report, write, finish,
// die, or diverge; commits that take long or fail; callbacks that stop, pause or restart the run
// with another number of workers, or fail; late and repeated events; Ctrl-C. Every order of events
// is drawn from a seed, and the controller's actions are checked after each of them.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <random>

#include "manta/train/controller_internal.h"

namespace manta::train {
namespace {

struct Outcomes {
  int finished = 0, failed = 0, fatal = 0, interrupted = 0, restarts = 0, late = 0, parted = 0;
  int stopped = 0, paused = 0, resized = 0;
  int in_report = 0;        // standstills with a rank that waits in a report
  int told = 0, moved = 0;  // runs that ended, or went on, because the loop was told to stop
};

class World {
 public:
  explicit World(uint32_t seed)
      : random_(seed),
        num_workers_(1 + up_to(3)),
        num_reports_(up_to(6)),
        max_failures_(up_to(4) - 1),
        faults_left_(chance(30) ? 0 : up_to(6)),
        runs_ahead_(chance(30)),
        interrupt_(chance(10)),
        asks_(chance(60)),
        reports_when_told_(chance(50)),
        drains_(chance(10)),
        collectives_(up_to(2)),
        claims_linger_(chance(20)),
        decisions_left_(chance(80) ? 0 : 1 + up_to(2)),
        controller_(num_workers_, {.max_failures = max_failures_}, start()) {
    if (num_workers_ > 1 && num_reports_ > 0) {
      if (chance(3)) short_rank_ = up_to(num_workers_ - 1);
      if (chance(3)) astray_rank_ = up_to(num_workers_ - 1);
    }
    if (num_workers_ > 1 && collectives_ > 0 && chance(5)) lost_rank_ = up_to(num_workers_ - 1);
    leaves_out_all_ = chance(50);
    checkpoint_percent_ = chance(20) ? 0 : chance(30) ? 100 : 50;
    has_checkpoint_.resize(static_cast<size_t>(num_reports_ * kMostRanks));
    for (size_t i = 0; i < has_checkpoint_.size(); ++i)
      has_checkpoint_[i] = chance(checkpoint_percent_);
  }

  /// Runs it; returns what went wrong, or nothing.
  std::string run(Outcomes& outcomes) {
    act(controller_.begin());
    for (int step = 0; !end_ && problem_.empty(); ++step) {
      if (step > 20'000) return "the run does not end";
      if (!move()) return "nothing can happen any more, but the run has not ended";
    }
    if (!problem_.empty()) return problem_;
    for (const Event& event : delivered_) {
      if (!controller_.handle(event).empty()) return "an action after the end";
    }
    if (!controller_.handle(Interrupted{}).empty()) return "an action after the end";
    check_end();
    outcomes.interrupted += end_->outcome == RunOutcome::kInterrupted;
    outcomes.stopped += end_->outcome == RunOutcome::kStopped;
    outcomes.paused += end_->outcome == RunOutcome::kPaused;
    outcomes.finished += end_->outcome == RunOutcome::kFinished;
    if (end_->failure) {
      ++(end_->failure->fatal ? outcomes.fatal : outcomes.failed);
      bool parted = end_->failure->message.find("take the same steps") != std::string::npos;
      outcomes.parted += parted;
      outcomes.in_report +=
          parted && end_->failure->message.find("has not made") != std::string::npos;
    }
    outcomes.restarts += restarts_;
    outcomes.resized += resized_;
    outcomes.late += late_deliveries_;
    outcomes.told += end_->outcome == RunOutcome::kInterrupted && told_;
    outcomes.moved += moved_;
    return problem_;
  }

 private:
  struct Process {
    int64_t first = 0, next = 0;  // reports
    int64_t begun = 0;            // collectives
    bool waits = false;           // in the last of them
    bool told = false;            // whether it has told what it waits in
    std::deque<int64_t> to_write;
    bool finished = false;
    bool dead = false;
    int64_t asks = 0;     // whether it should stop
    bool asked = false;   // before its next report, or its end
    bool wanted = false;  // the driver wants the number of its calls
    bool frozen = false;  // no further call is answered before stop_from is known
    std::optional<int64_t> stop_from;
    bool stops = false;      // it was told to
    std::deque<Event> sent;  // in order, not yet delivered
  };

  int up_to(int max) { return static_cast<int>(random_() % (static_cast<uint32_t>(max) + 1)); }
  bool chance(int percent) { return up_to(99) < percent; }
  void require(bool condition, const char* what) {
    if (!condition && problem_.empty()) problem_ = what;
  }
  Controller::Start start() {
    if (num_reports_ > 0 && chance(20)) {
      restart_.checkpoint = up_to(num_reports_ - 1);
      restart_.next_report = *restart_.checkpoint + 1;
      restart_.attempt = 1 + up_to(5);
    }
    return restart_;
  }

  bool has_checkpoint(int64_t index, int rank) const {
    return has_checkpoint_[static_cast<size_t>(index * kMostRanks + rank)];
  }
  bool any_has_checkpoint(int64_t index) const {
    for (int rank = 0; rank < num_workers_; ++rank)
      if (has_checkpoint(index, rank)) return true;
    return false;
  }
  int64_t reports_of(int rank) const { return num_reports_ - (rank == short_rank_ ? 1 : 0); }
  // How many collectives come before its next report, or its end. A rank that is lost leaves out
  // one of them, or all.
  int64_t collectives_before_next(size_t rank) const {
    const Process& process = processes_[rank];
    int64_t due = collectives_ * (process.next - process.first + 1);
    if (static_cast<int>(rank) != lost_rank_) return due;
    return leaves_out_all_ ? 0 : due - 1;
  }
  bool is_released(const Process& process) const {
    return std::all_of(processes_.begin(), processes_.end(),
                       [&](const Process& other) { return other.begun >= process.begun; });
  }
  // The activity that it could report.
  Activity activity(size_t rank) const {
    const Process& process = processes_[rank];
    Activity now;
    now.collectives = process.begun;
    if (process.dead || process.finished) return now;
    bool meets = process.waits && !is_released(process);
    bool has_begun_all = process.begun == collectives_before_next(rank);
    if (meets || (claims_linger_ && process.begun > 0 && !process.waits)) {
      now.kind = Wait::kCollective;
      now.number = process.begun - 1;
    } else if (!process.waits && has_begun_all && !runs_ahead_ &&
               process.next < reports_of(static_cast<int>(rank)) && process.next > gathered_ + 1) {
      now.kind = Wait::kReport;
      now.number = process.next - 1;
    }
    return now;
  }

  void deliver(const Event& event) {
    delivered_.push_back(event);
    act(controller_.handle(event));
  }

  // One thing that can happen. False if nothing can.
  bool move() {
    enum Move {
      kStep,
      kTell,
      kDeliver,
      kCommit,
      kJudge,
      kTimer,
      kStop,
      kLate,
      kRepeat,
      kInterrupt,
      kGrace,
      kDrain,
      kAnswer
    };
    std::vector<std::pair<Move, size_t>> moves;
    for (size_t rank = 0; alive_ && rank < processes_.size(); ++rank) {
      if (can_step(rank)) moves.push_back({kStep, rank});
      if (!processes_[rank].told && activity(rank).kind != Wait::kNone)
        moves.push_back({kTell, rank});
      if (!processes_[rank].sent.empty()) moves.push_back({kDeliver, rank});
      if (processes_[rank].wanted && !processes_[rank].dead) moves.push_back({kAnswer, rank});
    }
    if (alive_ && !started_event_.empty()) moves.push_back({kDeliver, processes_.size()});
    if (commit_) moves.push_back({kCommit, 0});
    if (announced_) moves.push_back({kJudge, 0});
    if (timer_) moves.push_back({kTimer, 0});
    if (stopping_) moves.push_back({kStop, 0});
    if (grace_ && (moves.empty() || chance(2))) moves.push_back({kGrace, 0});
    if (moves.empty()) return false;
    // These alone do not keep a run going.
    if (!late_.empty()) moves.push_back({kLate, 0});
    if (!delivered_.empty() && chance(10)) moves.push_back({kRepeat, 0});
    if (interrupt_ && chance(5)) moves.push_back({kInterrupt, 0});
    if (drains_ && alive_ && chance(2)) moves.push_back({kDrain, 0});

    auto [move, which] = moves[static_cast<size_t>(up_to(static_cast<int>(moves.size()) - 1))];
    switch (move) {
      case kStep:
        processes_[which].told = false;
        step(which);
        break;
      case kTell:
        processes_[which].told = true;
        processes_[which].sent.push_back(
            Waits{restart_.attempt, static_cast<int>(which), activity(which)});
        break;
      case kDeliver: {
        auto& queue = which < processes_.size() ? processes_[which].sent : started_event_;
        Event event = queue.front();
        queue.pop_front();
        deliver(event);
        break;
      }
      case kCommit: {
        bool bad = faults_left_ > 0 && chance(10);
        faults_left_ -= bad;
        Commit commit = *commit_;
        commit_.reset();
        if (!bad) {
          committed_ = commit.index;
          ++next_commit_;
          if (commit.has_checkpoint) restart_ = {commit.index, commit.index + 1, restart_.attempt};
        }
        deliver(CommitDone{commit.attempt, commit.index, bad ? "disk full" : ""});
        break;
      }
      case kJudge:
        judge();
        break;
      case kTimer:
        deliver(TimerFired{*std::exchange(timer_, std::nullopt)});
        break;
      case kStop: {
        stopping_ = false;
        alive_ = false;
        for (Process& process : processes_) {
          for (const Event& event : process.sent)
            if (chance(50)) late_.push_back(event);
        }
        stopped_ = true;
        deliver(GroupStopped{restart_.attempt});
        break;
      }
      case kLate: {
        Event event = late_.front();
        late_.pop_front();
        ++late_deliveries_;
        deliver(event);
        break;
      }
      case kRepeat:
        repeat();
        break;
      case kInterrupt:
        interrupted_ = true;
        deliver(Interrupted{});
        break;
      case kGrace:
        grace_ = false;
        grace_is_over_ = true;
        deliver(GraceIsOver{});
        break;
      case kDrain:
        drain_asked_ = true;
        if (!started_event_.empty() && !stopping_) ++free_restarts_;  // it has not begun
        deliver(NodeDrains{restart_.attempt});
        break;
      case kAnswer:
        processes_[which].wanted = false;
        if (processes_[which].finished) break;  // that message says it, too
        processes_[which].frozen = true;
        processes_[which].sent.push_back(
            Asks{restart_.attempt, static_cast<int>(which), processes_[which].asks});
        break;
    }
    return true;
  }

  void judge() {
    Judged judged{restart_.attempt, *std::exchange(announced_, std::nullopt)};
    if (faults_left_ > 0 && chance(5)) {
      --faults_left_;
      judged.error = "the callback failed";
    } else if (decisions_left_ > 0 && chance(30)) {
      --decisions_left_;
      judged.decision = static_cast<Decision::Kind>(1 + up_to(2));
      decided_ = judged.decision;
      if (decided_ == Decision::kRestart) {
        ++free_restarts_;
        // Ranks that misbehave are chosen among the first ranks.
        if (chance(50)) judged.num_workers = next_workers_ = 1 + up_to(kMostRanks - 1);
      }
    }
    judged_ = judged.index;
    deliver(judged);
  }

  // A report that comes twice in its own attempt is an error, not a repetition. And a rank does not
  // report an earlier wait after a later one.
  void repeat() {
    Event event = delivered_[static_cast<size_t>(up_to(static_cast<int>(delivered_.size()) - 1))];
    if (auto* report = std::get_if<Reported>(&event); report && report->attempt == restart_.attempt)
      return;
    if (std::holds_alternative<Interrupted>(event) || std::holds_alternative<Waits>(event)) return;
    act(controller_.handle(event));
  }

  bool can_step(size_t rank) const {
    const Process& process = processes_[rank];
    if (process.dead) return false;
    if (!process.to_write.empty()) return true;
    if (process.finished) return false;
    if (process.waits) return is_released(process);
    if (process.begun < collectives_before_next(rank)) return true;
    if (asks_ && !process.asked) return !process.frozen || process.stop_from;
    if (process.stops && !reports_when_told_) return true;
    if (process.next == reports_of(static_cast<int>(rank))) return true;
    return runs_ahead_ || process.next <= gathered_ + 1;
  }

  void step(size_t which) {
    Process& process = processes_[which];
    int rank = static_cast<int>(which);
    if (faults_left_ > 0 && chance(8)) return die(which);
    if (!process.to_write.empty() && (process.finished || chance(50))) {
      process.sent.push_back(
          Wrote{restart_.attempt, rank, process.to_write.front(), {{"file", 1, "x"}}});
      process.to_write.pop_front();
    } else if (process.finished) {
      return;
    } else if (process.waits) {
      process.waits = !is_released(process);
    } else if (process.begun < collectives_before_next(which)) {
      ++process.begun;
      process.waits = true;
    } else if (asks_ && !process.asked) {
      if (process.frozen && !process.stop_from) return;
      process.asked = true;
      ++process.asks;
      process.stops = process.stop_from && process.asks >= *process.stop_from;
      told_ = told_ || process.stops;
    } else if (process.stops && (!reports_when_told_ || process.next == reports_of(rank))) {
      finish(which);
    } else if (process.next < reports_of(rank)) {
      if (!runs_ahead_ && process.next > gathered_ + 1) return;
      bool astray = rank == astray_rank_;
      process.sent.push_back(Reported{restart_.attempt, rank, process.next, Json(rank),
                                      Json(process.next + astray),
                                      has_checkpoint(process.next, rank)});
      if (has_checkpoint(process.next, rank)) process.to_write.push_back(process.next);
      ++process.next;
      process.asked = false;
      if (process.stops) finish(which);
    } else {
      finish(which);
    }
  }

  void finish(size_t rank) {
    Process& process = processes_[rank];
    process.finished = true;
    process.sent.push_back(Finished{restart_.attempt, static_cast<int>(rank), process.begun, 0,
                                    process.asks, process.stops});
  }

  // Its own failure may arrive late, only as a consequence, or with some of its messages lost;
  // other processes may notice it. Or the data reader dies.
  void die(size_t which) {
    --faults_left_;
    auto failure = [&](int rank, bool consequence) {
      return Failed{restart_.attempt, {rank, ErrorKind::kWorkerLost, "lost", consequence}};
    };
    bool reader = chance(10);
    bool noticed = reader || chance(85);
    if (reader) {
      processes_[which].sent.push_back(failure(kDataReader, chance(50)));
    } else {
      Process& process = processes_[which];
      process.dead = true;
      if (!process.sent.empty() && chance(30)) process.sent.pop_back();
      process.sent.push_back(failure(static_cast<int>(which), !noticed));
    }
    for (size_t other = 0; other < processes_.size(); ++other) {
      if (other == which || processes_[other].finished || processes_[other].dead || !chance(50))
        continue;
      processes_[other].dead = true;
      processes_[other].sent.push_back(failure(static_cast<int>(other), true));
    }
  }

  void act(const std::vector<Action>& actions) {
    for (const Action& action : actions) {
      require(!end_, "an action after the end");
      std::visit([&](const auto& one) { on(one); }, action);
    }
  }

  void on(const StartGroup& action) {
    require(!alive_, "two groups at a time");
    require(!interrupted_, "a group starts after an interrupt");
    require(!commit_ && !announced_, "a group starts while a commit is not decided");
    require(decided_ == Decision::kGoOn || decided_ == Decision::kRestart,
            "a group starts after a decision to end");
    if (decided_ == Decision::kRestart && next_workers_ && *next_workers_ != num_workers_) {
      num_workers_ = *next_workers_;
      ++resized_;
      for (int* rank : {&short_rank_, &astray_rank_, &lost_rank_})
        if (*rank >= num_workers_ || num_workers_ == 1) *rank = -1;
    }
    next_workers_.reset();
    decided_ = Decision::kGoOn;
    require(action.num_workers == num_workers_, "a group of another size");
    if (begun_) {
      // A loop that was told to leave a node.
      if (std::any_of(processes_.begin(), processes_.end(),
                      [](auto& each) { return each.stops; })) {
        require(drain_asked_, "nobody told the loop to stop");
        ++free_restarts_;
        ++moved_;
      }
      require(stopped_, "a group starts before the other one has stopped");
      require(action.attempt == restart_.attempt + 1, "attempts are not counted");
      ++restarts_;
      require(max_failures_ < 0 || restarts_ <= max_failures_ + free_restarts_,
              "too many restarts");
    } else {
      require(action.attempt == restart_.attempt, "the first attempt has another number");
    }
    require(action.checkpoint == restart_.checkpoint && action.next_report == restart_.next_report,
            "an attempt does not start after the last committed checkpoint");
    restart_.attempt = action.attempt;
    next_commit_ = action.next_report;
    acknowledged_ = gathered_ = action.next_report - 1;
    committed_.reset();
    judged_.reset();
    begun_ = alive_ = true;
    stopped_ = false;
    timer_.reset();
    processes_.assign(static_cast<size_t>(num_workers_), {});
    for (Process& process : processes_) process.first = process.next = action.next_report;
    // No rank has a report left to make, so none can make one too few, or a wrong one.
    if (action.next_report == num_reports_) short_rank_ = astray_rank_ = -1;
    started_event_ = {GroupStarted{action.attempt}};
  }
  void on(const StopGroup& action) {
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "a stop without a group");
    stopping_ = true;
  }
  void on(const AskGroupToStop& action) {
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "asks without a group");
    require(interrupted_ || drain_asked_, "asks without a reason");
    for (Process& process : processes_) {
      require(!process.wanted && !process.frozen, "asks twice");
      process.wanted = true;
    }
  }
  void on(const StopGroupFrom& action) {
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "a stop without a group");
    for (Process& process : processes_) {
      require(process.finished || process.dead || process.frozen,
              "a stop before all have answered");
      require(!process.stop_from, "two stops");
      bool answered = process.asked || process.stops;
      require(process.asks < action.ask || process.finished || !answered,
              "an answer is taken back");
      process.stop_from = action.ask;
    }
  }
  void on(const TakeStacks& action) {
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "stacks without a group");
  }
  void on(const StartGrace&) {
    require(!grace_ && interrupted_, "a grace without an interrupt");
    grace_ = true;
  }
  void on(const StartTimer& action) {
    require(!timer_ && action.attempt == restart_.attempt, "two timers");
    timer_ = action.attempt;
  }
  void on(const Commit& action) {
    require(!commit_ && !announced_, "two commits at a time");
    require(decided_ == Decision::kGoOn, "a commit after a decision to end");
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "a commit without a group");
    require(action.index == next_commit_, "commits out of order");
    require(action.index <= gathered_, "a commit of what is not gathered");
    for (int rank = 0; rank < num_workers_; ++rank) {
      require(processes_[static_cast<size_t>(rank)].next > action.index, "a report is missing");
      require(action.files.count(rank) == has_checkpoint(action.index, rank), "files are missing");
    }
    require(action.has_checkpoint == any_has_checkpoint(action.index), "not the right checkpoint");
    require(action.metrics == Json(0), "not the metrics of rank 0");
    commit_ = action;
  }
  void on(const Gathered& action) {
    require(alive_ && !stopping_ && action.attempt == restart_.attempt, "gathered without a group");
    for (const Process& process : processes_)
      require(process.next > action.index, "gathered before every rank has made the report");
    require(action.index == gathered_ + 1, "gathered out of order");
    gathered_ = action.index;
  }
  void on(const Announce& action) {
    require(action.attempt == restart_.attempt && committed_ == action.index && !announced_,
            "an announcement of what is not committed");
    require(action.has_checkpoint == any_has_checkpoint(action.index), "not the right checkpoint");
    announced_ = action.index;
  }
  void on(const Acknowledge& action) {
    require(action.attempt == restart_.attempt && judged_ == action.index && !commit_,
            "an acknowledgement before the callbacks have decided");
    require(decided_ == Decision::kGoOn, "an acknowledgement after a decision to end");
    require(action.index == acknowledged_ + 1, "acknowledgements out of order");
    acknowledged_ = action.index;
  }
  void on(const Note& action) {
    require(!action.event.empty() && action.details.is_object(), "an empty note");
  }
  void on(const Warn&) { require(interrupted_, "a warning without a reason"); }
  void on(const End& action) { end_ = action; }

  void check_end() {
    require(!alive_ && stopped_ && !commit_ && !announced_,
            "the end comes before the group has stopped");
    require(controller_.ended(), "ended() is wrong");
    if (end_->outcome == RunOutcome::kInterrupted) {
      require(interrupted_, "nobody interrupted it");
    } else if (end_->outcome == RunOutcome::kStopped) {
      require(decided_ == Decision::kStop, "nobody stopped it");
    } else if (end_->outcome == RunOutcome::kPaused) {
      require(decided_ == Decision::kPause, "nobody paused it");
    } else if (!end_->failure) {
      require(decided_ == Decision::kGoOn, "a decision was passed over");
      require(next_commit_ == num_reports_, "reports are missing at the end");
      require(short_rank_ < 0, "workers that report unequally often must fail");
      require(astray_rank_ < 0, "workers at different positions must fail");
      require(lost_rank_ < 0, "workers that wait for each other must fail");
    } else if (interrupted_) {
      require(false, "an interrupted run fails");
    } else if (end_->failure->fatal) {
      require(short_rank_ >= 0 || astray_rank_ >= 0 || lost_rank_ >= 0, "fatal without a reason");
    } else {
      // Restarts that were asked for may have coincided with failures, which count.
      require(restarts_ >= max_failures_ && restarts_ <= max_failures_ + free_restarts_,
              "it could have been tried again");
    }
  }

  static constexpr int kMostRanks = 4;

  std::mt19937 random_;
  int num_workers_;
  int num_reports_;
  int max_failures_;
  int faults_left_;
  bool runs_ahead_;
  bool interrupt_;
  bool asks_;               // the loop asks before each report whether it should stop
  bool reports_when_told_;  // and makes one more report
  bool drains_;
  int collectives_;     // before each report, and before the end
  bool claims_linger_;  // a rank may say that it waits in a collective that is over
  int decisions_left_;  // of callbacks
  int checkpoint_percent_ = 0;
  int short_rank_ = -1;
  int astray_rank_ = -1;
  int lost_rank_ = -1;
  bool leaves_out_all_ = false;
  std::vector<bool> has_checkpoint_;

  // What the controller should know, found independently of it.
  Controller::Start restart_;
  int64_t next_commit_ = 0;
  int64_t acknowledged_ = -1, gathered_ = -1;
  std::optional<int64_t> committed_, judged_, announced_;
  Decision::Kind decided_ = Decision::kGoOn;
  std::optional<int> next_workers_;
  int restarts_ = 0, free_restarts_ = 0, resized_ = 0;
  bool begun_ = false, alive_ = false, stopping_ = false, stopped_ = false, interrupted_ = false;
  std::vector<Process> processes_;
  std::deque<Event> started_event_;
  std::optional<Commit> commit_;
  std::optional<int> timer_;
  std::deque<Event> late_;
  std::vector<Event> delivered_;
  int late_deliveries_ = 0, moved_ = 0;
  bool grace_ = false, grace_is_over_ = false, drain_asked_ = false, told_ = false;
  std::optional<End> end_;
  std::string problem_;
  Controller controller_;
};

// A hundred thousand orders of events, in four parts.
constexpr uint32_t kOrders = 25'000;
class ControllerSimulatorTest : public testing::TestWithParam<uint32_t> {};

TEST_P(ControllerSimulatorTest, ManyOrdersOfEvents) {
  Outcomes outcomes;
  for (uint32_t seed = GetParam() * kOrders; seed < (GetParam() + 1) * kOrders; ++seed) {
    std::string problem = World(seed).run(outcomes);
    ASSERT_EQ(problem, "") << "seed " << seed;
  }
  // The simulator has seen what it is for.
  EXPECT_GT(outcomes.finished, 2'500);
  EXPECT_GT(outcomes.failed, 250);
  EXPECT_GT(outcomes.fatal, 25);
  EXPECT_GT(outcomes.interrupted, 25);
  EXPECT_GT(outcomes.restarts, 2'500);
  EXPECT_GT(outcomes.late, 250);
  EXPECT_GT(outcomes.parted, 100);
  EXPECT_GT(outcomes.in_report, 10);
  EXPECT_GT(outcomes.stopped, 100);
  EXPECT_GT(outcomes.paused, 100);
  EXPECT_GT(outcomes.resized, 100);
  EXPECT_GT(outcomes.told, 100);
  EXPECT_GT(outcomes.moved, 100);
}

INSTANTIATE_TEST_SUITE_P(Parts, ControllerSimulatorTest, testing::Range(0u, 4u));

}  // namespace
}  // namespace manta::train
