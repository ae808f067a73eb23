#pragma once

#include <cstdint>
#include <string>

namespace manta::serve {

/// A process that serves a model: an actor with one call, which lasts as long as the replica.
class Replica {
 public:
  /// Connects to the front, loads the model, and answers requests until the front stops it, or has
  /// gone. If the model cannot be loaded, it reports that to the front, and does not throw.
  void run(const std::string& address, const std::string& token, uint64_t id);
};

}  // namespace manta::serve
