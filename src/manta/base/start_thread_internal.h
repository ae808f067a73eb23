#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/signal_stack_internal.h"

namespace manta {

/// What this process may have at most, as far as there are limits: "limits of this process: 88 MiB
/// of address space (ulimit -v), 100 processes and threads (ulimit -u)". For messages when
/// something could not be had.
std::string describe_limits();

/// A thread, or Error(kResources) that says which one could not be had, and why. `what` completes
/// "starting ...". All threads that may run users' code start here: each has a SignalStack, without
/// which nothing is known of an overflow of its stack.
template <class F>
std::thread start_thread(const std::string& what, F function) {
  try {
    return std::thread([function = std::move(function)]() mutable {
      SignalStack stack;
      function();
    });
  } catch (const std::system_error& error) {
    throw Error(ErrorKind::kResources,
                str("starting ", what, ": ", error.code().message(), "; ", describe_limits()));
  }
}

}  // namespace manta
