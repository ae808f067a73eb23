#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "manta/io/collectives_internal.h"

namespace manta::train {

/// When the ranks of a Gloo group connect to each other.
enum class Connecting {
  kNow,        ///< All with all, before the group is there.
  kWhenNeeded  ///< With those that a call is exchanged with: for many ranks, of which few pairs
               ///< talk.
};

/// Gloo's c10d backend: TCP between the ranks, which find each other through `store`. `address` is
/// this host's, by which the others reach it; Gloo listens there and nowhere else. Blocks until all
/// ranks have joined, unless they connect only when needed: then the first call does.
///
/// Throws Error(kTimeout) or Error(kIo) naming rank, size and address if the group does not form.
/// Calls are asynchronous: their errors are thrown by Work::wait, as Error(kTimeout), Error(kIo) or
/// Error(kWorkerLost) with the call, this rank and what Gloo says, which names peers by address
/// only. A peer's death is noticed at once as a rule, and after the timeout at the latest. After an
/// error the group cannot be used any more. SIGPIPE no longer ends this process.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options = {},
                                                    const std::string& address = "127.0.0.1",
                                                    Connecting connecting = Connecting::kNow);

}  // namespace manta::train
