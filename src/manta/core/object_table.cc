#include "manta/base/error_internal.h"
#include "manta/core/object_table_internal.h"

namespace manta {

void ObjectTable::create(ObjectId id) { objects_.try_emplace(id); }

const Outcome* ObjectTable::outcome(ObjectId id) const {
  auto found = objects_.find(id);
  return found != objects_.end() && found->second.done ? &found->second.outcome : nullptr;
}

void ObjectTable::add_ref(ObjectId id) {
  auto found = objects_.find(id);
  if (found != objects_.end()) ++found->second.holds;
}

void ObjectTable::release(ObjectId id) {
  // A list, not recursion: chains of references may be long. Most objects refer to nothing.
  std::vector<ObjectId> refs = release_one(id);
  while (!refs.empty()) {
    ObjectId next = refs.back();
    refs.pop_back();
    std::vector<ObjectId> more = release_one(next);
    refs.insert(refs.end(), more.begin(), more.end());
  }
}

// What it refers to, if that was its last hold.
std::vector<ObjectId> ObjectTable::release_one(ObjectId id) {
  auto found = objects_.find(id);
  if (found == objects_.end() || --found->second.holds > 0) return {};
  Object& object = found->second;
  if (object.done && !object.observed) report_unobserved(id, object.outcome);
  std::vector<ObjectId> refs = std::move(object.outcome.value.refs);
  objects_.erase(found);
  callbacks_.freed(id);
  return refs;
}

void ObjectTable::finish(ObjectId id, Outcome outcome) {
  auto found = objects_.find(id);
  if (found == objects_.end()) return report_unobserved(id, outcome);
  if (found->second.done) return;
  Object& object = found->second;
  object.done = true;
  object.outcome = std::move(outcome);
  for (ObjectId ref : object.outcome.value.refs) add_ref(ref);
  auto fetchers = std::move(object.fetchers);
  auto watchers = std::move(object.watchers);
  auto dependents = std::move(object.dependents);
  if (!fetchers.empty() || !dependents.empty()) object.observed = true;
  for (uint32_t peer : fetchers) callbacks_.answer(peer, {id, true, object.outcome});
  for (uint32_t peer : watchers) callbacks_.answer(peer, {id, false, {}});
  for (ObjectId task : dependents) callbacks_.dependency_ready(task);
}

void ObjectTable::report_unobserved(ObjectId id, const Outcome& outcome) const {
  bool failed = !outcome.ok && outcome.error.kind != ErrorKind::kCancelled;
  if (failed && callbacks_.unobserved) callbacks_.unobserved(id, outcome.error);
}

Outcome ObjectTable::unknown(ObjectId id) const {
  return Outcome::failed(ErrorKind::kNotFound,
                         str("object ", id, " is not known to this run, or was freed"));
}

void ObjectTable::fetch(ObjectId id, uint32_t peer) {
  auto found = objects_.find(id);
  if (found == objects_.end()) return callbacks_.answer(peer, {id, true, unknown(id)});
  found->second.observed = true;
  if (found->second.done) return callbacks_.answer(peer, {id, true, found->second.outcome});
  found->second.fetchers.push_back(peer);
}

void ObjectTable::watch(ObjectId id, uint32_t peer) {
  auto found = objects_.find(id);
  if (found == objects_.end() || found->second.done)
    return callbacks_.answer(peer, {id, false, {}});
  found->second.watchers.push_back(peer);
}

bool ObjectTable::add_dependent(ObjectId id, ObjectId task) {
  auto found = objects_.find(id);
  if (found == objects_.end()) return false;
  found->second.observed = true;  // the dependent fails with it
  if (found->second.done) return false;
  found->second.dependents.push_back(task);
  return true;
}

void ObjectTable::forget_peer(uint32_t peer) {
  for (auto& [id, object] : objects_) {
    std::erase(object.fetchers, peer);
    std::erase(object.watchers, peer);
  }
}

}  // namespace manta
