#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "manta/io/collectives_internal.h"

namespace manta::train {

/// Whether this libtorch has NCCL, and this library was compiled for it: see
/// cmake/Dependencies.cmake. That of the set-up is for CPUs, and has not.
bool has_nccl();

/// NCCL's c10d backend, for tensors on CUDA. The ranks find each other through `store`, and connect
/// at their first call. Each must see one GPU at least, and uses the first.
///
/// Calls are asynchronous, on a stream of their own; Work::wait makes the current stream wait, not
/// this thread. A rank that is waited for longer than options.timeout ends the process: c10d's own
/// watchdog does that. Throws Error(kInvalidArgument) unless has_nccl().
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options);

}  // namespace manta::train
