#pragma once

#include <atomic>

namespace manta::train {

/// Counts as a run under way in this process, while it lives.
class ActiveRun {
 public:
  ActiveRun() { ++counter(); }
  ~ActiveRun() { --counter(); }
  ActiveRun(const ActiveRun&) = delete;
  ActiveRun& operator=(const ActiveRun&) = delete;

  /// The number of runs under way now.
  static int count() { return counter(); }

 private:
  static std::atomic<int>& counter() {
    static std::atomic<int> count = 0;
    return count;
  }
};

}  // namespace manta::train
