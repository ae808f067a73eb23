#include "manta/io/shared_memory.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>

#include "manta/base/error_internal.h"

namespace manta::internal {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;
constexpr size_t kAlignment = 64;

}  // namespace

std::shared_ptr<SharedMemory> SharedMemory::adopt(UniqueFd fd, size_t size) {
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & kSeals) != kSeals) {
    throw Error(ErrorKind::kCorrupt, "a received shared-memory descriptor is not a sealed memfd");
  }
  struct stat info {};
  if (::fstat(fd.get(), &info) != 0) throw_errno("fstat of a shared-memory descriptor");
  if (size == 0 || static_cast<size_t>(info.st_size) < size) {
    throw Error(ErrorKind::kCorrupt, str("a received shared-memory region has ", info.st_size,
                                         " bytes, its message says ", size));
  }
  // For a region that cannot be written, MAP_PRIVATE maps the same pages as MAP_SHARED; kernels
  // before 6.7 refuse the latter on a sealed memfd.
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, fd.get(), 0);
  if (data == MAP_FAILED) throw_errno(str("mmap of a shared-memory region of ", size, " bytes"));
  return std::shared_ptr<SharedMemory>(
      new SharedMemory(std::move(fd), size, static_cast<const uint8_t*>(data)));
}

SharedMemory::~SharedMemory() { ::munmap(const_cast<uint8_t*>(data_), size_); }

SharedMemoryWriter::SharedMemoryWriter()
    : fd_(::memfd_create("manta-object", MFD_CLOEXEC | MFD_ALLOW_SEALING)) {
  if (!fd_) {
    throw_errno(
        "memfd_create for a large object (raise the limit of open files if there are too many)");
  }
}

void SharedMemoryWriter::write(const void* data, size_t size) {
  auto* from = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written =
        ::pwrite(fd_.get(), from, std::min<size_t>(size, 1u << 30), static_cast<off_t>(size_));
    if (written < 0) {
      if (errno == EINTR) continue;
      throw Error(ErrorKind::kResources,
                  str("writing ", size,
                      " bytes of a large object into shared memory: ", errno_text(errno)));
    }
    from += written;
    size_ += static_cast<size_t>(written);
    size -= static_cast<size_t>(written);
  }
}

size_t SharedMemoryWriter::align() {
  size_ = (size_ + kAlignment - 1) / kAlignment * kAlignment;
  return size_;
}

size_t SharedMemoryWriter::append(const void* data, size_t size) {
  size_t offset = align();
  write(data, size);
  return offset;
}

std::shared_ptr<SharedMemory> SharedMemoryWriter::finish() && {
  if (::ftruncate(fd_.get(), static_cast<off_t>(size_)) != 0)
    throw_errno("ftruncate of a shared-memory region");
  if (::fcntl(fd_.get(), F_ADD_SEALS, kSeals) != 0) throw_errno("sealing a shared-memory region");
  return SharedMemory::adopt(std::move(fd_), size_);
}

}  // namespace manta::internal
