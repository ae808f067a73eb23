#include <fcntl.h>
#include <unistd.h>

#include "manta/base/error_internal.h"
#include "manta/train/plan_bundle_internal.h"

namespace manta::train {

PlanBundle::PlanBundle(const std::map<std::string, data::WirePlan>& plans) {
  OutArchive archive(bytes);
  archive(plans);
  for (const OutgoingFd& each : archive.fds) {
    UniqueFd fd(::fcntl(each.fd, F_DUPFD_CLOEXEC, 0));
    if (!fd) throw_errno("duplicating the memory of a plan");
    auto size = static_cast<size_t>(::lseek(fd.get(), 0, SEEK_END));
    auto shared = SharedMemory::adopt(std::move(fd), size);
    memory.push_back(std::make_shared<arrow::Buffer>(shared->data(), static_cast<int64_t>(size)));
    kept_.push_back(std::move(shared));
  }
}

std::map<std::string, data::WirePlan> PlanBundle::plans() const {
  InArchive archive(bytes);
  for (const auto& each : memory) {
    SharedMemoryWriter writer;
    if (each) writer.append(each->data(), static_cast<size_t>(each->size()));
    auto shared = std::move(writer).finish();
    archive.fds.emplace_back(::fcntl(shared->fd(), F_DUPFD_CLOEXEC, 0));
  }
  std::map<std::string, data::WirePlan> plans;
  read_value(archive, plans);
  return plans;
}

}  // namespace manta::train
