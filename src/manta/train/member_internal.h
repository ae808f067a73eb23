#pragma once

#include <string>

namespace manta::train {

/// What a process of a training group is: an actor with one call, which lasts as long as the loop.
class Member {
 public:
  /// Connects to the driver, learns what to do, and does it: runs the training loop, or reads data
  /// for the others. What goes wrong in the loop is told to the driver, not thrown.
  void run(const std::string& address, const std::string& token, int attempt, int rank);
};

}  // namespace manta::train
