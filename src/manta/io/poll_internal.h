#pragma once

#include <poll.h>

#include <cerrno>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"

namespace manta {

/// Waits until a descriptor has one of the events (or an error). False once the deadline has
/// passed.
inline bool poll_until(int fd, short events, Deadline deadline) {
  while (true) {
    pollfd entry{fd, events, 0};
    int ready = ::poll(&entry, 1, deadline.poll_milliseconds());
    if (ready > 0) return true;
    if (ready == 0 && deadline.passed()) return false;
    if (ready < 0 && errno != EINTR) throw_errno("poll on a channel");
  }
}

}  // namespace manta
