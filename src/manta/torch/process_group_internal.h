#pragma once

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace manta::train {

/// The process group that c10d::Reducer and the other users of c10d take, over one backend for CPU
/// tensors and, if it is not null, one for those on CUDA. `store` may be null where the backend
/// needs none, as the shared-memory one.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend>& backend,
    int rank, int size, const c10::intrusive_ptr<c10d::Backend>& on_cuda = {});

/// The group's backend for tensors there. Throws Error(kInvalidArgument) naming the device if it
/// has none.
c10::intrusive_ptr<c10d::Backend> backend_for(c10d::ProcessGroup& group, c10::DeviceType device);

}  // namespace manta::train
