#pragma once

#include <functional>
#include <memory>
#include <string>

#include "manta/io/event_loop_internal.h"

namespace manta {

/// The file in a session folder at which a driver or an agent tells what it is at.
inline constexpr const char* kStatusSocket = "status";

/// A Unix socket that says something to whoever connects, and closes. It reads nothing, so nobody
/// can change anything through it, and what it says is text (JSON) that does not depend on the
/// build. Only processes of the same user, or of root, are told; eight at a time, and a slow one
/// for five seconds. Everything runs with the loop's mutex held.
class StatusSocket {
 public:
  /// Throws Error(kIo) if it cannot listen there.
  StatusSocket(EventLoop& loop, const std::string& path, std::function<std::string()> tell);
  ~StatusSocket();
  StatusSocket(const StatusSocket&) = delete;

 private:
  struct Listening;
  std::shared_ptr<Listening> listening_;
};

}  // namespace manta
