#pragma once

#include <cstdint>
#include <string>

namespace manta::serve {

/// What a process that serves a model is: an actor with one call, which lasts as long as the
/// replica.
class Replica {
 public:
  /// Connects to the front, loads the model, and answers requests until the front says that it is
  /// enough, or has gone. A model that cannot be loaded is told to the front, not thrown.
  void run(const std::string& address, const std::string& token, uint64_t id);
};

}  // namespace manta::serve
