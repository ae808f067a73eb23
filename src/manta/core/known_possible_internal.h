#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// The requests of single tasks and actors with labels that the hub has found possible, so that the
/// client need not ask again for each of thousands. An outdated answer does no harm: the hub
/// decides what happens to tasks that wait for a node that has gone. Thread-safe.
class KnownPossible {
 public:
  bool contains(const Resources& resources, const Labels& labels) const {
    std::lock_guard lock(mutex_);
    for (const auto& each : known_) {
      if (each.first == resources && each.second == labels) return true;
    }
    return false;
  }
  void add(const Resources& resources, const Labels& labels) {
    std::lock_guard lock(mutex_);
    if (known_.size() == kMost) known_.erase(known_.begin());
    known_.emplace_back(resources, labels);
  }
  /// Call it when nodes have come or gone.
  void forget() {
    std::lock_guard lock(mutex_);
    known_.clear();
  }

 private:
  static constexpr size_t kMost = 16;
  mutable std::mutex mutex_;
  std::vector<std::pair<Resources, Labels>> known_;
};

}  // namespace manta
