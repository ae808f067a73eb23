#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

#include "manta/io/collectives_internal.h"

namespace manta::train {

/// Whether this libtorch has NCCL, and this library was compiled for it: see
/// cmake/Dependencies.cmake. The libtorch of the set-up is for CPUs, and has no NCCL.
bool has_nccl();

/// NCCL's c10d backend, for tensors on CUDA. The ranks find each other through `store`, and connect
/// at their first call. Each rank must see at least one GPU, and uses the first.
///
/// Calls are asynchronous, on a separate stream; Work::wait makes the current stream wait, not this
/// thread. If a rank does not come within options.timeout, c10d's own watchdog ends this process.
/// Throws Error(kInvalidArgument) unless has_nccl().
c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options);

}  // namespace manta::train
