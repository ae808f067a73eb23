#include "manta/torch/process_group_internal.h"

namespace manta::train {

c10::intrusive_ptr<c10d::ProcessGroup> make_process_group(
    const c10::intrusive_ptr<c10d::Store>& store, const c10::intrusive_ptr<c10d::Backend>& backend,
    int rank, int size) {
  auto type = c10d::ProcessGroup::strToBackendType(backend->getBackendName());
  auto group = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group->setBackend(c10::DeviceType::CPU, type, backend);
  group->setDefaultBackend(type);
  return group;
}

}  // namespace manta::train
