#pragma once

#include <string>

#include "manta/io/listener_internal.h"

namespace manta {

/// A Listener on a new Unix socket, which only this user can reach. 64 strangers are dealt with at
/// a time; others wait in the kernel. The socket's file is removed with it.
class UnixListener : public Listener {
 public:
  UnixListener(EventLoop& loop, const std::string& path, OnFirst on_first);
};

}  // namespace manta
