#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta::serve {

using ReplicaId = uint64_t;

/// The actions on the replicas of a deployment.
struct StartReplica {
  ReplicaId id;
  int generation;
  bool operator==(const StartReplica&) const = default;
};
struct DrainReplica {  ///< The replica gets no more requests; it ends when it has answered those
                       ///< that it has.
  ReplicaId id;
  bool operator==(const DrainReplica&) const = default;
};
struct UpdateEnded {  ///< Given once for each `update`.
  int generation;
  bool ok;
  std::string why = {};
  bool operator==(const UpdateEnded&) const = default;
};
using ReplicaAction = std::variant<StartReplica, DrainReplica, UpdateEnded>;

/// Decides how many replicas of which generation of a deployment there are. Each `deploy` makes a
/// generation. The class does no I/O, starts no thread and reads no clock: its callers report
/// events, and `decide` returns what to do.
///
/// An update goes replica by replica: a new replica serves before an old one is drained. If there
/// is no room for one more, and others serve, an old one goes first. If a new replica cannot be
/// loaded, the update ends and the generation before goes on, with as many replicas as before. A
/// lost replica is replaced at once. Replicas that are lost without having answered anything, or
/// cannot be loaded again, are replaced after pauses that grow.
class ReplicaSet {
 public:
  /// Begins the next generation, with this many replicas. An update that is under way ends as
  /// failed.
  void update(int generation, int replicas);
  /// An update that is under way ends as failed.
  void give_up(const std::string& why);
  /// From now on there should be no replicas.
  void drain();

  void on_ready(ReplicaId id);
  void on_answered(ReplicaId id);
  /// Call it when the predictor could not be made: trying again would not help.
  void on_load_failed(ReplicaId id, const std::string& why);
  /// Call it when the process has ended, or could not be started.
  void on_lost(ReplicaId id, const std::string& why, Clock::time_point now);

  /// `room`: whether one more replica would get its resources now.
  std::vector<ReplicaAction> decide(Clock::time_point now, bool room);
  /// When `decide` may return further actions; none: after the next event.
  std::optional<Clock::time_point> next_decision_at() const { return paused_until_; }

  int serving() const;
  int size() const { return static_cast<int>(replicas_.size()); }
  int target() const { return target_.replicas; }
  bool updating() const { return updating_; }
  /// The number of replicas that replaced lost ones.
  int64_t restarts() const { return restarts_; }
  /// Why the last replica was lost, or could not be loaded; empty once one serves again.
  const std::string& trouble() const { return trouble_; }

 private:
  enum class State { kStarting, kServing, kDraining };
  struct Replica {
    int generation = 0;
    State state = State::kStarting;
    bool has_answered = false;
  };
  struct Target {
    int generation = 0;
    int replicas = 0;
  };
  int count(State state, bool of_target) const;
  void end_update(bool ok, const std::string& why);

  Target target_;
  Target stable_;  // the generation before the update; no replicas if there was none
  bool updating_ = false;
  std::vector<UpdateEnded> ended_;
  std::map<ReplicaId, Replica> replicas_;
  ReplicaId next_id_ = 1;
  int owed_restarts_ = 0;
  int64_t restarts_ = 0;
  int failures_ = 0;  // in a row
  std::optional<Clock::time_point> paused_until_;
  std::string trouble_;
};

}  // namespace manta::serve
