#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "manta/io/collectives_internal.h"

namespace manta::train {

/// When the ranks of a Gloo group connect to each other.
enum class Connecting {
  kNow,        ///< All with all, before the group is ready.
  kWhenNeeded  ///< With the partners of a call: for many ranks, of which few pairs talk.
};

/// Gloo's c10d backend: TCP between the ranks, which find each other through `store`. `address` is
/// the address at which the others reach this host; Gloo listens only there. Blocks until all ranks
/// have joined, unless they connect only when needed: then the first call blocks.
///
/// Throws Error(kTimeout) or Error(kIo) naming rank, size and address if the group does not form.
/// Calls are asynchronous: their errors are thrown by Work::wait, as Error(kTimeout), Error(kIo) or
/// Error(kWorkerLost) with the call, this rank and Gloo's text, which names peers only by address.
/// A peer's death is noticed at once as a rule, and after the timeout at the latest. After an error
/// the group cannot be used any more. SIGPIPE no longer ends this process.
c10::intrusive_ptr<c10d::Backend> make_gloo_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options = {},
                                                    const std::string& address = "127.0.0.1",
                                                    Connecting connecting = Connecting::kNow);

}  // namespace manta::train
