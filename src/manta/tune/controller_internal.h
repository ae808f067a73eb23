#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/core/node_ledger_internal.h"
#include "manta/train/config.h"
#include "manta/tune/assignment.h"
#include "manta/tune/scheduler.h"
#include "manta/tune/searcher.h"

namespace manta::tune {

// ---- Events. Those of a trial name its attempt; events of older attempts are ignored.

/// A searcher's suggestion, and the trial that it makes.
struct Suggestion {
  Assignment assignment;
  Json config;
  std::vector<Resources> resources;  ///< What its processes hold, all or none.
};
struct Suggested {  ///< Answer to Suggest.
  uint64_t number = 0;
  std::optional<Suggestion> suggestion;  ///< Nothing: there are no more suggestions.
};
struct Reported {
  uint64_t trial = 0;
  int attempt = 0;
  int64_t index = 0;  ///< 0, 1, ... over the whole trial, restarts included.
  Json metrics;
  double time_total_s = 0;
  bool has_checkpoint = false;  ///< The checkpoint is committed.
};
struct TrialEnded {
  uint64_t trial = 0;
  int attempt = 0;
  RunOutcome outcome = RunOutcome::kFinished;
  ErrorKind kind = ErrorKind::kUserCode;  ///< With kFailed.
  std::string message = {};
};
struct Interrupted {};  ///< Ctrl-C.
struct Woken {};        ///< Not an event of a trial: the code that performs actions has something
                        ///< to look at.
/// How many trials there may be at a time: at first, and whenever nodes have come or gone. If there
/// is less room than before, running trials go on, and no other starts until they fit again.
struct TrialRoom {
  Resources total = {};  ///< What they may hold together, on all nodes; one trial may always run.
  int max_concurrent = 256;
  bool operator==(const TrialRoom&) const = default;
};
using Event = std::variant<Suggested, Reported, TrialEnded, Interrupted, Woken, TrialRoom>;

// ---- Actions, to be performed in order.

struct Suggest {
  uint64_t number = 0;
};
struct StartTrial {
  uint64_t trial = 0;
  int attempt = 0;
};
struct Judge {  ///< The answer to a report.
  uint64_t trial = 0;
  int attempt = 0;
  int64_t index = 0;
  Verdict verdict = Verdict::kGoOn;
};
struct InterruptTrial {  ///< Ends it; its event follows.
  uint64_t trial = 0;
  int attempt = 0;
};
struct Note {  ///< For the journal, before any later action.
  int attempt = 0;
  std::string event;
  Json details;
};
struct End {
  bool interrupted = false;
};
using Action = std::variant<Suggest, StartTrial, Judge, InterruptTrial, Note, End>;

/// Names of notes, which are the events of the journal.
inline constexpr const char* kTrial = "trial";      ///< trial, assignment, config, resources
inline constexpr const char* kStarted = "started";  ///< trial
inline constexpr const char* kResult = "result";    ///< trial, index, metrics, decision, ...
inline constexpr const char* kEnded = "ended";      ///< trial, outcome, kind, message, retry
inline constexpr const char* kRevived = "revived";  ///< trial: it had failed, and is resumed
inline constexpr const char* kInterrupted = "experiment_interrupted";
inline constexpr const char* kExperimentEnded = "experiment_ended";

/// One of a trial's reports.
struct TrialReport {
  Json metrics;
  double time_total_s = 0;
  bool has_checkpoint = false;  ///< The checkpoint may have been removed since.
};

/// Everything that is known about a trial.
struct Trial {
  enum State { kPending, kRunning, kDone };
  uint64_t number = 0;
  Assignment assignment = {};
  Json config = {};
  std::vector<Resources> resources = {};
  State state = kPending;
  int attempt = -1;  ///< The last attempt that has begun.
  int failures = 0;
  bool stopped = false;                        ///< As the scheduler has decided.
  std::vector<TrialReport> reports = {};       ///< Each index once.
  RunOutcome outcome = RunOutcome::kFinished;  ///< Once it is done: finished, stopped or failed.
  std::optional<Error> error = {};             ///< With kFailed.
};

/// One experiment as a state machine: takes an event, returns actions, and does nothing itself.
///
/// It changes only through its notes: each is applied to the state when it is made. So a controller
/// that applies the notes of a journal has the state in which the controller that wrote them died:
/// trials that ran then are pending, with the next attempt.
class Controller {
 public:
  struct Options {
    TrialRoom room = {};
    int max_failures = 0;  ///< How often a failed trial is started again. -1: always.
  };
  Controller(Options options, Searcher& searcher, Scheduler& scheduler);

  /// Applies a line of the journal. Call it for each line, in order, before `begin`. Throws
  /// Error(kCorrupt) if it does not fit.
  void replay(int attempt, const std::string& event, const Json& details);
  /// Starts failed trials again, from where they were. Call it before `begin`, after all lines.
  void revive_failed() { revive_failed_ = true; }

  /// Call it once, before any event.
  std::vector<Action> begin();
  std::vector<Action> handle(const Event& event);
  bool ended() const { return ended_; }

  const std::vector<Trial>& trials() const { return trials_; }  ///< By number.
  size_t running() const { return running_.size(); }

 private:
  void on(const Suggested& event);
  void on(const Reported& event);
  void on(const TrialEnded& event);
  void on(const Interrupted& event);
  void on(const Woken&) {}
  void on(const TrialRoom& event);

  template <class T>
  void add(T action) {
    actions_.emplace_back(std::in_place_type<T>, std::move(action));
  }
  void note(int attempt, const char* event, Json details);
  void apply(int attempt, const std::string& event, const Json& details, bool is_new);
  void apply_trial(const Json& details);
  void apply_result(Trial& trial, const Json& details, bool is_new);
  void apply_end(Trial& trial, const Json& details);
  Trial* current(uint64_t number, int attempt);
  bool admit(const Trial& trial);
  void place_crowded_out();
  void go_on();
  void leave(const Trial& trial);

  const int max_failures_;
  TrialRoom room_;
  Searcher& searcher_;
  Scheduler& scheduler_;
  NodeLedger ledger_;
  std::vector<Trial> trials_;
  std::set<uint64_t> pending_;
  std::map<uint64_t, std::vector<Grant>> running_;  // empty: too large, but the only trial
  std::set<uint64_t> crowded_out_;                  // trials that began when there was more room
  bool suggesting_ = false;
  bool exhausted_ = false;  // no more suggestions
  bool interrupted_ = false;
  bool revive_failed_ = false;
  bool ended_ = false;
  std::vector<Action> actions_;  // the actions that this event leads to
};

}  // namespace manta::tune
