// The only file that sees the headers of CUDA and NCCL; CMake defines USE_C10D_NCCL if they are
// there.
#include "manta/torch/nccl_group_internal.h"

#ifdef USE_C10D_NCCL
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>
#endif

#include "manta/base/error_internal.h"

namespace manta::train {

#ifdef USE_C10D_NCCL

bool has_nccl() { return true; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>& store,
                                                    int rank, int size,
                                                    const GroupOptions& options) {
  auto timeout = std::chrono::ceil<std::chrono::milliseconds>(options.timeout);
  try {
    store->setTimeout(timeout);
    auto nccl = c10d::ProcessGroupNCCL::Options::create();
    nccl->timeout = timeout;
    return c10::make_intrusive<c10d::ProcessGroupNCCL>(store, rank, size, std::move(nccl));
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kIo, str("rank ", rank, " could not join an NCCL group of ", size,
                                    " ranks: ", error.what()));
  }
}

#else

bool has_nccl() { return false; }

c10::intrusive_ptr<c10d::Backend> make_nccl_backend(const c10::intrusive_ptr<c10d::Store>&,
                                                    int rank, int size, const GroupOptions&) {
  throw Error(ErrorKind::kInvalidArgument,
              str("rank ", rank, " of ", size, " wants NCCL, which this libtorch does not have"));
}

#endif

}  // namespace manta::train
