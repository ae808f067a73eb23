#pragma once

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/Types.hpp>

#include "manta/base/names_internal.h"
#include "manta/io/collectives_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

inline constexpr const char* kShmBackend = "manta_shm";  ///< Its name.

/// A c10d backend over shared memory, for CPU tensors of workers on one host. `region` comes from
/// create_shm_region(size) in the driver. Blocks until all ranks have joined.
///
/// Collectives run in the calling thread and return work that is complete; errors are thrown by the
/// call itself, as manta::Error (see Collectives). Tensors need not be contiguous, but then cost a
/// copy. There is no send or recv, and no call takes sparse tensors.
c10::intrusive_ptr<c10d::Backend> make_shm_backend(UniqueFd region, int rank, int size,
                                                   const GroupOptions& options = {});

/// A tensor's type, an operation and a dense tensor's content, in the types of Collectives.
ElementType element_type(at::ScalarType type);
ReduceKind reduce_kind(const c10d::ReduceOp& op);
Elements elements_of(const at::Tensor& tensor);

}  // namespace manta::train
