#pragma once

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "manta/base/error.h"
#include "manta/base/names_internal.h"

namespace manta::train {

/// For a backend that can tell the other ranks why it fails.
struct TellsWhy {
  virtual ~TellsWhy() = default;
  /// Makes every rank's next call, and those under way, throw this.
  virtual void fail(ErrorKind kind, const std::string& why) = 0;
};

/// For a rank that cannot make the call that the others make: those that wait for it in the
/// backend's calls fail at once. Over Gloo and NCCL they only learn that a peer has gone.
void fail_backend(c10d::Backend& backend, ErrorKind kind, const std::string& why);

/// The process group that c10d::Reducer and the other users of c10d take, over one backend for CPU
/// tensors and, if it is not null, one for CUDA tensors. `store` may be null if the backend needs
/// none, like the shared-memory backend.
c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend>& backend,
    int rank, int size, const c10::intrusive_ptr<c10d::Backend>& on_cuda = {});

/// Gives a group the backends of another one.
void copy_backends(c10d::ProcessGroup& from, c10d::ProcessGroup& to);

/// The group's backend for tensors on this device. Throws Error(kInvalidArgument) naming the device
/// if there is none.
c10::intrusive_ptr<c10d::Backend> backend_for(c10d::ProcessGroup& group, c10::DeviceType device);

/// Whether each exchange of the backend compares the workers' steps (see WaitWatch::step).
bool compares_steps(const c10d::Backend& backend);

/// How many numbers the largest exchange had that the training loop itself has made, through the
/// group of get_process_group(); 0 if it has made none.
int64_t largest_exchange_by_hand();

}  // namespace manta::train
