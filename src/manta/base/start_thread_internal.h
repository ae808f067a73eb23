#pragma once

#include <string>
#include <system_error>
#include <thread>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/signal_stack_internal.h"

namespace manta {

/// The limits of this process, if it has any: "limits of this process: 88 MiB of address space
/// (ulimit -v), 100 processes and threads (ulimit -u)". For messages when the system refused
/// something.
std::string describe_limits();

/// Starts a thread, or throws Error(kResources) that says which thread could not be started, and
/// why. `what` completes "starting ...". All threads that may run users' code start here: each gets
/// a SignalStack, without which an overflow of its stack could not be reported.
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
