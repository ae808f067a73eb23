#include <algorithm>

#include "manta/serve/replica_set_internal.h"

namespace manta::serve {
namespace {

constexpr int kFailuresOfAnUpdate = 3;  // processes lost before they were ready
constexpr int kFailuresWithoutPause = 2;
constexpr std::chrono::milliseconds kFirstPause{50};
constexpr std::chrono::milliseconds kLongestPause{5000};

}  // namespace

void ReplicaSet::update(int generation, int replicas) {
  if (updating_) end_update(false, "another deploy of the same name came before it was done");
  stable_ = target_;
  target_ = {generation, replicas};
  updating_ = true;
  failures_ = 0;
  paused_until_.reset();
}

void ReplicaSet::give_up(const std::string& why) {
  if (updating_) end_update(false, why);
}

void ReplicaSet::drain() {
  if (updating_) end_update(false, "the deployment was removed before it was ready");
  target_.replicas = 0;
  stable_ = target_;
  updating_ = false;
}

void ReplicaSet::end_update(bool ok, const std::string& why) {
  ended_.push_back({target_.generation, ok, why});
  updating_ = false;
  if (!ok) target_ = stable_;
  failures_ = 0;
  paused_until_.reset();
}

void ReplicaSet::on_ready(ReplicaId id) {
  auto found = replicas_.find(id);
  if (found == replicas_.end() || found->second.state != State::kStarting) return;
  found->second.state = State::kServing;
  if (found->second.generation == target_.generation) trouble_.clear();
}

void ReplicaSet::on_answered(ReplicaId id) {
  auto found = replicas_.find(id);
  if (found == replicas_.end() || found->second.has_answered) return;
  found->second.has_answered = true;
  if (found->second.generation == target_.generation) failures_ = 0;
}

void ReplicaSet::on_load_failed(ReplicaId id, const std::string& why) {
  auto found = replicas_.find(id);
  if (found == replicas_.end()) return;
  // Its process still has to end; `on_lost` follows.
  found->second.state = State::kDraining;
  if (found->second.generation != target_.generation) return;
  trouble_ = why;
  if (updating_) end_update(false, why);
}

void ReplicaSet::on_lost(ReplicaId id, const std::string& why, Clock::time_point now) {
  auto found = replicas_.find(id);
  if (found == replicas_.end()) return;
  Replica replica = found->second;
  replicas_.erase(found);
  if (replica.generation != target_.generation) return;
  bool wanted = replica.state != State::kDraining ||
                count(State::kStarting, true) + count(State::kServing, true) < target_.replicas;
  if (!wanted) return;
  if (replica.state != State::kDraining) trouble_ = why;
  if (!updating_) ++owed_restarts_;
  if (replica.has_answered) return;  // it worked: most likely its end came from outside
  ++failures_;
  if (updating_ && failures_ >= kFailuresOfAnUpdate) return end_update(false, why);
  if (failures_ <= kFailuresWithoutPause) return;
  int doublings = std::min(failures_ - kFailuresWithoutPause - 1, 10);
  paused_until_ = now + std::min(kLongestPause, kFirstPause * (1 << doublings));
}

std::vector<ReplicaAction> ReplicaSet::decide(Clock::time_point now, bool room) {
  std::vector<ReplicaAction> actions;
  int serving = count(State::kServing, true), starting = count(State::kStarting, true);
  int serving_old = count(State::kServing, false);
  auto drain_one = [&](auto which) {
    for (auto& [id, replica] : replicas_) {
      if (!which(replica) || replica.state == State::kDraining) continue;
      replica.state = State::kDraining;
      actions.push_back(DrainReplica{id});
      return;
    }
  };
  auto is_old = [&](const Replica& each) { return each.generation != target_.generation; };

  // Old replicas that have not begun to serve never will.
  for (int i = count(State::kStarting, false); i > 0; --i) {
    drain_one([&](const Replica& each) { return is_old(each) && each.state == State::kStarting; });
  }
  for (;
       serving_old > 0 && (serving + serving_old > target_.replicas || serving >= target_.replicas);
       --serving_old) {
    drain_one([&](const Replica& each) { return is_old(each) && each.state == State::kServing; });
  }
  for (; serving + starting > target_.replicas; starting > 0 ? --starting : --serving) {
    auto state = starting > 0 ? State::kStarting : State::kServing;
    drain_one([&](const Replica& each) { return !is_old(each) && each.state == state; });
  }

  if (paused_until_ && *paused_until_ <= now) paused_until_.reset();
  while (!paused_until_ && serving + starting < target_.replicas) {
    if (serving_old > 0) {
      if (starting > 0) break;  // one at a time
      if (!room && serving + serving_old > 1) {
        drain_one(
            [&](const Replica& each) { return is_old(each) && each.state == State::kServing; });
        --serving_old;
      }
    }
    replicas_[next_id_] = {target_.generation, State::kStarting, false};
    actions.push_back(StartReplica{next_id_++, target_.generation});
    ++starting;
    if (owed_restarts_ > 0) {
      --owed_restarts_;
      ++restarts_;
    }
  }
  if (updating_ && serving >= target_.replicas && serving_old == 0) end_update(true, "");
  for (auto& ended : ended_) actions.push_back(std::move(ended));
  ended_.clear();
  return actions;
}

int ReplicaSet::count(State state, bool of_target) const {
  return static_cast<int>(std::count_if(replicas_.begin(), replicas_.end(), [&](const auto& each) {
    return each.second.state == state &&
           (each.second.generation == target_.generation) == of_target;
  }));
}

int ReplicaSet::serving() const {
  return count(State::kServing, true) + count(State::kServing, false);
}

}  // namespace manta::serve
