#pragma once

#include <string>

#include "manta/io/listener_internal.h"

namespace manta {

/// A Listener on a new Unix socket, which only this user can reach. It serves 64 strangers at a
/// time; others wait in the kernel. The destructor removes the socket's file.
class UnixListener : public Listener {
 public:
  UnixListener(EventLoop& loop, const std::string& path, OnFirst on_first);
};

}  // namespace manta
