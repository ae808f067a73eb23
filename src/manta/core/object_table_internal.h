#pragma once

#include <cstdint>
#include <functional>
#include <unordered_map>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

/// Every object of the run: what it is, who waits for it, and how many hold it. Not thread-safe.
class ObjectTable {
 public:
  struct Callbacks {
    std::function<void(uint32_t peer, ObjectReady message)> answer;
    std::function<void(ObjectId task)> dependency_ready;  ///< Once for each `add_dependent`.
    std::function<void(ObjectId id)> freed;
    /// It failed, and went without anybody having asked for it.
    std::function<void(ObjectId id, const ErrorInfo& error)> unobserved = {};
  };
  explicit ObjectTable(Callbacks callbacks) : callbacks_(std::move(callbacks)) {}

  /// A new object that is not there yet, with one hold.
  void create(ObjectId id);
  bool contains(ObjectId id) const { return objects_.contains(id); }
  size_t size() const { return objects_.size(); }
  void clear() { objects_.clear(); }
  /// How it ended; null while it is not there, or not known.
  const Outcome* outcome(ObjectId id) const;

  void add_ref(ObjectId id);
  /// Frees the object with the last hold, and lets go of what its value refers to.
  void release(ObjectId id);
  /// Answers whoever waits. Nothing if nobody holds it any more, or if it ended before (a cancelled
  /// task's result).
  void finish(ObjectId id, Outcome outcome);

  /// Answered now or later.
  void fetch(ObjectId id, uint32_t peer);
  void watch(ObjectId id, uint32_t peer);
  /// True if `task` must wait for it.
  bool add_dependent(ObjectId id, ObjectId task);
  /// A peer that has gone waits for nothing.
  void forget_peer(uint32_t peer);

 private:
  struct Object {
    bool done = false;
    bool observed = false;
    Outcome outcome;
    int64_t holds = 1;
    std::vector<uint32_t> fetchers;
    std::vector<uint32_t> watchers;
    std::vector<ObjectId> dependents;
  };
  std::vector<ObjectId> release_one(ObjectId id);
  Outcome unknown(ObjectId id) const;
  void report_unobserved(ObjectId id, const Outcome& outcome) const;

  Callbacks callbacks_;
  std::unordered_map<ObjectId, Object> objects_;
};

}  // namespace manta
