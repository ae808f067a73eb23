#pragma once

#include <mutex>
#include <utility>
#include <vector>

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// What the hub has found possible for single tasks and actors with labels, so that it need not be
/// asked again for each of thousands. An answer that has become wrong meanwhile does no harm: the
/// hub says what happens to tasks that wait for a node that has gone. Thread-safe.
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
  /// Nodes have come or gone.
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
