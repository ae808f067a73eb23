#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/shm_group_internal.h"

namespace manta::train {

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend>& backend,
    int rank, int size, const c10::intrusive_ptr<c10d::Backend>& on_cuda) {
  auto type = c10d::ProcessGroup::strToBackendType(backend->getBackendName());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, type, backend);
  group->setDefaultBackend(type);
  if (on_cuda) {
    group->setBackend(c10::DeviceType::CUDA,
                      c10d::ProcessGroup::strToBackendType(on_cuda->getBackendName()), on_cuda);
  }
  return group;
}

void copy_backends(c10d::ProcessGroup& from, c10d::ProcessGroup& to) {
  for (c10::Device device : from.getDeviceTypes()) {
    auto backend = from.getBackend(device.type());
    to.setBackend(device.type(), c10d::ProcessGroup::strToBackendType(backend->getBackendName()),
                  backend);
  }
  to.setDefaultBackend(from.getBackendType());
}

bool compares_steps(const c10d::Backend& backend) {
  return backend.getBackendName() == kShmBackend;
}

void fail_backend(c10d::Backend& backend, ErrorKind kind, const std::string& why) {
  if (auto* tells = dynamic_cast<TellsWhy*>(&backend)) return tells->fail(kind, why);
  backend.abort();
}

c10::intrusive_ptr<c10d::Backend> backend_for(c10d::ProcessGroup& group, c10::DeviceType device) {
  auto known = group.getDeviceTypes();
  if (std::find(known.begin(), known.end(), c10::Device(device)) != known.end())
    return group.getBackend(device);
  throw Error(
      ErrorKind::kInvalidArgument,
      str("the workers cannot exchange tensors on ", c10::DeviceTypeName(device, true),
          ": their process group has ", group.getBackend(c10::DeviceType::CPU)->getBackendName(),
          " for the CPU only; tensors on CUDA need a libtorch with NCCL, a GPU for each "
          "worker (use_gpu), and torch_config.backend 'auto' or 'nccl'"));
}

}  // namespace manta::train
