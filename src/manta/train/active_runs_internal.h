#pragma once

#include <atomic>

namespace manta::train {

/// A run that goes on in this process, while it lives.
class ActiveRun {
 public:
  ActiveRun() { ++counter(); }
  ~ActiveRun() { --counter(); }
  ActiveRun(const ActiveRun&) = delete;
  ActiveRun& operator=(const ActiveRun&) = delete;

  /// How many there are now.
  static int count() { return counter(); }

 private:
  static std::atomic<int>& counter() {
    static std::atomic<int> count = 0;
    return count;
  }
};

}  // namespace manta::train
