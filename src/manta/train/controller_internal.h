#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/train/callback.h"
#include "manta/train/checkpoint.h"
#include "manta/train/config.h"
#include "manta/train/standstill_internal.h"

namespace manta::train {

/// Stands for the group's data reader where an event names a rank.
inline constexpr int kDataReader = -1;
/// Stands for the driver itself, e.g. if a checkpoint cannot be committed.
inline constexpr int kDriver = -2;

/// "rank 3", "the data reader", "the driver".
std::string participant(int rank);

/// Why a worker ended early.
struct Failure {
  int rank = 0;
  ErrorKind kind = ErrorKind::kUserCode;
  std::string message;
  /// True if another worker's end caused it (a collective or the data feed broke off). It counts as
  /// the cause only if there is no better one.
  bool consequence = false;
  bool fatal = false;  ///< Another attempt would end in the same way.
};

// ---- Events. Each event of a group names its attempt; events of older attempts are ignored.

struct GroupStarted {  ///< All processes run.
  int attempt = 0;
};
struct Reported {  ///< train::report was called.
  int attempt = 0;
  int rank = 0;
  int64_t index = 0;  ///< 0, 1, ... over the whole run, restarts included.
  Json metrics;
  Json positions;  ///< Positions in the data sets; the same on every rank.
  bool has_checkpoint = false;
  std::optional<uint64_t> fingerprint = {};  ///< Of its checkpoint; see CheckpointSource.
  bool trained_alone = false;                ///< See CheckpointSource; also for the next.
  bool needs_all_ranks = false;              ///< Its checkpoint is one part of the whole
                                             ///< checkpoint.
};
struct Wrote {  ///< The files of a report with a checkpoint are on disk.
  int attempt = 0;
  int rank = 0;
  int64_t index = 0;
  std::vector<CheckpointFile> files;
};
struct Waits {  ///< A rank has waited for others for a while.
  int attempt = 0;
  int rank = 0;
  Activity activity;
};
struct Finished {  ///< The loop returned.
  int attempt = 0;
  int rank = 0;
  int64_t collectives = 0, passes = 0;  ///< How many the loop began in all.
  int64_t asks = 0;                     ///< Calls of train::should_stop.
  bool told = false;                    ///< One of them returned true.
};
struct Asks {  ///< Each rank's answer to AskGroupToStop.
  int attempt = 0;
  int rank = 0;
  int64_t count = 0;  ///< Calls of train::should_stop that returned false; the next call waits.
};
struct Failed {  ///< A worker or the data reader ended early.
  int attempt = 0;
  Failure failure;
  std::optional<Activity> activity = {};  ///< For a consequence: the wait of the rank.
};
struct GroupStopped {  ///< Answer to StopGroup: no process is left.
  int attempt = 0;
};
struct TimerFired {  ///< Answer to StartTimer.
  int attempt = 0;
};
struct CommitDone {  ///< Answer to Commit.
  int attempt = 0;
  int64_t index = 0;
  std::string error;                ///< Empty if it succeeded.
  ErrorKind kind = ErrorKind::kIo;  ///< kInvalidArgument: a restart would not help.
  bool fatal = false;               ///< True: a restart would not help, whatever the kind.
};
struct Judged {  ///< Answer to Announce.
  int attempt = 0;
  int64_t index = 0;
  Decision::Kind decision = Decision::kGoOn;
  std::optional<int> num_workers = {};  ///< The workers of the next attempt, if that changes.
  std::string error = {};               ///< Empty if it succeeded.
  ErrorKind kind = ErrorKind::kUserCode;
  bool fatal = false;
};
/// Answer to StartGroup, instead of a group: the checkpoint to start from cannot be used.
struct CheckpointDamaged {
  int attempt = 0;
  std::optional<int64_t> before;  ///< The checkpoint to use instead; none: start from the
                                  ///< beginning.
};
/// Answer to StartGroup, instead of a group: there is room for another number of workers.
struct Resized {
  int attempt = 0;
  int num_workers = 1;
};
struct Interrupted {};  ///< Ctrl-C, SIGTERM, RunHandle::stop.
struct GraceIsOver {};  ///< Answer to StartGrace.
struct TimeIsUp {};     ///< StopCriteria::time has passed: the run is complete.
/// Workers are on a node that will be taken away.
struct NodeDrains {
  int attempt = 0;
};
using Event = std::variant<GroupStarted, Reported, Wrote, Waits, Finished, Asks, Failed,
                           GroupStopped, TimerFired, CommitDone, Judged, CheckpointDamaged, Resized,
                           Interrupted, GraceIsOver, TimeIsUp, NodeDrains>;

// ---- Actions.

struct StartGroup {  ///< Start all workers.
  int attempt = 0;
  std::optional<int64_t> checkpoint;  ///< The report whose checkpoint it starts from.
  int64_t next_report = 0;            ///< The index of the first report that it will make.
  int num_workers = 1;
};
struct StopGroup {  ///< Kill the whole group, and answer when it is gone.
  int attempt = 0;
};
struct StartTimer {  ///< Answer after the delay; a timer of an older attempt may be dropped.
  int attempt = 0;
  std::chrono::milliseconds delay{};
};
struct AskGroupToStop {  ///< Ask each rank how often it has called train::should_stop.
  int attempt = 0;
};
struct StopGroupFrom {  ///< Tell each rank from which call on train::should_stop returns true.
  int attempt = 0;
  int64_t ask = 0;
};
struct StartGrace {};  ///< Answer after RunConfig::stop_grace.
struct TakeStacks {    ///< Ranks wait for each other: write down where each of them is.
  int attempt = 0;
};
struct Gathered {  ///< Every rank has made report `index`: let the next one begin.
  int attempt = 0;
  int64_t index = 0;
};
struct Commit {  ///< Every rank has made report `index`, and its files are written: commit it.
  int attempt = 0;
  int64_t index = 0;
  Json metrics;  ///< Rank 0's.
  Json positions;
  bool has_checkpoint = false;
  std::map<int, std::vector<CheckpointFile>> files;  ///< By rank.
};
struct Announce {  ///< A commit is done: let the callbacks decide how the run continues.
  int attempt = 0;
  int64_t index = 0;
  bool has_checkpoint = false;
};
struct Acknowledge {  ///< Let another checkpoint take the place of this one in memory.
  int attempt = 0;
  int64_t index = 0;
};
struct Note {  ///< A note for the journal, the screen and callbacks.
  std::string event;
  Json details;
  int attempt = 0;
  ErrorKind failure_kind = ErrorKind::kUserCode;  ///< With kAttemptFailed.
};
struct Warn {  ///< A warning for the screen.
  std::string message;
};
struct End {  ///< The last action.
  RunOutcome outcome = RunOutcome::kFinished;
  std::optional<Failure> failure = {};  ///< With kFailed.
};
using Action =
    std::variant<StartGroup, StopGroup, StartTimer, AskGroupToStop, StopGroupFrom, StartGrace,
                 TakeStacks, Gathered, Commit, Announce, Acknowledge, Note, Warn, End>;

/// Names of notes, which are also names of events in the journal.
inline constexpr const char* kAttemptStarted = "attempt_started";  ///< checkpoint, next_report
inline constexpr const char* kGroupStarted = "group_started";
inline constexpr const char* kAttemptFailed = "attempt_failed";  ///< rank, kind, message, restart
inline constexpr const char* kDecided = "decided";  ///< report, decision: restart, pause or stop
inline constexpr const char* kInterrupted = "interrupted";
inline constexpr const char* kRunEnded = "run_ended";  ///< outcome: its name in lower case

/// "finished", "stopped", ...
const char* outcome_name(RunOutcome outcome);

/// What to do about a failure after `failures_so_far` other failures.
enum class FailureDecision { kRestart, kRaise };
FailureDecision decide(const FailureConfig& config, int failures_so_far, const Failure& failure);

/// How long a failure that looks like a consequence waits for its cause to become known.
inline constexpr std::chrono::milliseconds kWaitForCause{1000};

/// One run as a state machine: takes an event, returns actions, and does nothing itself.
///
/// An attempt is one group of workers, from StartGroup to GroupStopped. Within it, a report is
/// committed once every rank has made it and its files are written, one at a time, in order. A
/// committed report is announced, and the callbacks decide before the next commit. The first
/// failure (a cause before a consequence) stops the group. The controller waits for a commit in
/// progress, and then applies the policy. The next attempt starts after the last committed
/// checkpoint, so the reports after it are made, and committed, again. Ranks that have diverged are
/// a failure as soon as they report that they wait (see find_standstill).
///
/// An interrupt asks a group whose loop has called train::should_stop to end by itself, and stops
/// any other group at once. The loop may make further reports, which are committed. When it has
/// returned, or the grace is over, the run ends as interrupted; a loop that returned without being
/// told to stop has finished. A node that drains asks the group in the same way, and the run goes
/// on with another attempt; at once, if the group has not begun.
class Controller {
 public:
  struct Start {  ///< Where the run begins; not at 0 if it is restored.
    std::optional<int64_t> checkpoint;
    int64_t next_report = 0;
    int attempt = 0;  ///< The number of the first attempt: higher than any in the journal.
  };
  Controller(int num_workers, FailureConfig config, Start start);

  /// Call it once, before any event.
  std::vector<Action> begin();
  /// Events of other attempts, duplicates, and all events after End change nothing.
  std::vector<Action> handle(const Event& event);
  bool ended() const { return phase_ == Phase::kEnded; }
  int attempt() const { return restart_point_.attempt; }  ///< The current attempt.

 private:
  enum class Phase { kIdle, kRunning, kStopping, kEnded };
  struct Pending {  // a report that is not committed
    Json metrics;
    Json positions;
    int first_rank = 0;            // the rank whose positions these are
    std::map<int, bool> reported;  // rank -> has a checkpoint
    std::map<int, std::vector<CheckpointFile>> written;
    std::map<int, uint64_t> fingerprints;
    std::optional<int> trained_alone;  // a rank
    std::set<int> parts;               // ranks that gave a part of a checkpoint that needs all
                                       // ranks
    bool has_checkpoint() const;
    bool complete(int num_workers) const;
  };

  void on(const GroupStarted& event);
  void on(const Reported& event);
  void on(const Wrote& event);
  void on(const Waits& event);
  void on(const Finished& event);
  void on(const Asks& event);
  void on(const Failed& event);
  void on(const GroupStopped& event);
  void on(const TimerFired& event);
  void on(const CommitDone& event);
  void on(const Judged& event);
  void on(const CheckpointDamaged& event);
  void on(const Resized& event);
  void on(const Interrupted& event);
  void on(const GraceIsOver& event);
  void on(const NodeDrains& event);
  void on(const TimeIsUp& event);

  template <class T>
  void add(T action) {
    actions_.emplace_back(std::in_place_type<T>, std::move(action));
  }
  void start_attempt();
  void commit_next();
  void ask_to_stop();
  void name_the_ask();
  void end_by_interrupt();
  void stop_if_done();
  bool all_work_is_done() const;
  bool unequal(int finished, int other);
  bool stands_still();
  void take_stacks();
  bool is_empty_checkpoint(const Pending& report);
  bool lacks_parts(int64_t index, const Pending& report);
  void warn_of_different_models(const Pending& report);
  void fail(Failure failure);
  void fail_in_driver(ErrorKind kind, const std::string& error, bool fatal);
  void stop();
  void conclude();
  void end(End end);

  int num_workers_;  // of the current attempt
  FailureConfig config_;
  Start restart_point_;  // .attempt is the current one
  int failures_ = 0;
  bool interrupted_ = false;   // the run does not, or no longer, wait for the group
  bool asked_to_end_ = false;  // by an interrupt; the group may end by itself
  bool time_is_up_ = false;
  bool warned_of_models_ = false;
  std::vector<Action> actions_;  // the actions that this event leads to

  // Of the current attempt.
  Phase phase_ = Phase::kIdle;
  std::vector<RankView> ranks_;
  std::map<int64_t, Pending> pending_;
  int64_t next_commit_ = 0;
  bool committing_ = false;           // until the commit is judged
  std::optional<int64_t> announced_;  // the report that is committed and not judged
  Decision::Kind decided_ = Decision::kGoOn;
  std::optional<int> next_workers_;  // of the next attempt
  bool group_started_ = false;
  bool group_stopped_ = false;
  bool asking_ = false;        // asks for the calls of should_stop, because the group should end
  bool ask_is_named_ = false;  // the ranks know from which call on they return true
  bool moves_ = false;         // a call has returned true, or a node drained before the group began
  bool took_stacks_ = false;
  std::map<int, int64_t> asks_;  // rank -> calls
  std::optional<Failure> cause_;
};

}  // namespace manta::train
