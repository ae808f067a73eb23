// Why something waits.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {

std::string Hub::describe_holder(uint64_t holder) {
  auto task = tasks_.find(holder);
  if (auto actor = actors_.find(holder); actor != actors_.end()) {
    return str("actor '", task_name(actor->second->create), "'");
  }
  return task == tasks_.end() ? "a task" : str("task '", task_name(task->second->spec), "'");
}

std::string Hub::why_waits(ObjectId id) {
  std::string text;
  for (int depth = 0;; ++depth) {
    ObjectId next = 0;
    text += why_waits_itself(id, &next);
    if (next == 0) return text;
    if (depth == 5) return text + "another task";
    id = next;
  }
}

// `next`: the object that it waits for, if that is the reason.
std::string Hub::why_waits_itself(ObjectId id, ObjectId* next) {
  if (objects_.outcome(id)) return "the value is there";
  auto found = tasks_.find(id);
  if (found == tasks_.end()) {
    return objects_.contains(id) ? "its task is unknown" : "the object is unknown";
  }
  const Task& task = *found->second;
  std::string name = describe_holder(id);
  if (task.spec.kind == TaskKind::kActorCall) name = str("call '", task_name(task.spec), "'");
  if (task.state == Task::kSent) {
    const Peer& peer = *peers_.at(task.peer);
    size_t place = static_cast<size_t>(std::find(peer.assigned.begin(), peer.assigned.end(), id) -
                                       peer.assigned.begin());
    if (place < peer.concurrency) {
      return str(name, " runs in ", peer.name, " (pid ", peer.pid, ")");
    }
    return str(name, " waits behind ", place, place == 1 ? " other in " : " others in ", peer.name);
  }
  if (task.open_dependencies > 0) {
    for (const auto& argument : task.spec.ref_args) {
      if (objects_.outcome(argument.id)) continue;
      *next = argument.id;
      return str(name, " waits for its argument ", argument.index + 1, ": ");
    }
  }
  if (task.spec.kind == TaskKind::kActorCall) {
    auto actor = actors_.find(task.spec.actor);
    bool alive = actor != actors_.end() && actor->second->state == Actor::kAlive;
    return str(name, alive ? " waits for earlier calls of " : " waits for the start of ",
               describe_holder(task.spec.actor));
  }
  auto describe = [this](uint64_t h) { return describe_holder(h); };
  auto actor = actors_.find(id);
  std::vector<Request> asked{{task.spec.resources, task.spec.labels}};
  if (actor != actors_.end() && !actor->second->group.empty()) {
    asked = requests_of(actor->second->group);
  }
  std::string impossible = asked.size() == 1 ? ledger_.why_impossible(asked.front())
                                             : ledger_.why_impossible(asked, task.spec.placement);
  if (!impossible.empty() && supply_) return str(name, " ", impossible, "; ", what_may_come());
  std::string missing =
      actor != actors_.end() && !actor->second->group.empty()
          ? ledger_.why_waits(requests_of(actor->second->group), task.spec.placement, describe)
          : ledger_.why_waits({task.spec.resources, task.spec.labels}, describe);
  return str(name, " ", missing.empty() ? "waits for a process to start" : missing);
}

}  // namespace manta
