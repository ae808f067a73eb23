#pragma once

#include <functional>
#include <string>

#include "manta/serve/control_messages_internal.h"
#include "manta/serve/front_internal.h"

namespace manta::serve {

/// Lets other programs of this user control a front, through a Unix socket. Lives on the front's
/// loop; the loop's mutex must be held when it is made and destroyed.
class ControlServer {
 public:
  /// `on_shutdown` is called when a program has asked for the end: by then the front has been
  /// drained, and the answer is sent.
  ControlServer(Front& front, const std::string& path, std::string token,
                std::function<void()> on_shutdown);

 private:
  void on_greeting(const std::shared_ptr<AsyncChannel>& channel, Frame& frame);
  void on_request(const std::shared_ptr<AsyncChannel>& channel, Frame& frame);
  Reply status() const;

  Front& front_;
  const std::string token_;
  const std::function<void()> on_shutdown_;
  UnixListener listener_;
};

}  // namespace manta::serve
