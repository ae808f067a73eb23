#pragma once

#include <functional>
#include <memory>
#include <string>

#include "manta/io/event_loop_internal.h"

namespace manta {

/// The socket in a session folder on which a driver or an agent reports its status.
inline constexpr const char* kStatusSocket = "status";

/// A Unix socket that sends a text to every process that connects, and closes the connection. It
/// reads nothing, so no process can change anything through it, and the text (JSON) does not depend
/// on the build. Only processes of the same user, or of root, get the text. It serves eight at a
/// time, each for at most five seconds. Everything runs with the loop's mutex held.
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
