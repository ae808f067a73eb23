#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include <utility>

#include "manta/base/error_internal.h"
#include "manta/io/shared_region_internal.h"

namespace manta {
namespace {

uint8_t* map(int fd, size_t size, bool writable) {
  void* data = ::mmap(nullptr, size, PROT_READ | (writable ? PROT_WRITE : 0),
                      MAP_SHARED | (writable ? 0 : MAP_POPULATE), fd, 0);
  if (data == MAP_FAILED) {
    throw Error(ErrorKind::kResources,
                str("mapping ", size, " bytes of shared memory: ", errno_text(errno)));
  }
  return static_cast<uint8_t*>(data);
}

}  // namespace

SharedRegion SharedRegion::create(const std::string& name, size_t size) {
  SharedRegion region;
  region.fd_ = UniqueFd(::memfd_create(name.c_str(), MFD_CLOEXEC | MFD_ALLOW_SEALING));
  int error = region.fd_ ? EINTR : errno;
  while (error == EINTR) {
    error = ::posix_fallocate(region.fd_.get(), 0, static_cast<off_t>(size));
  }
  if (error == 0 &&
      ::fcntl(region.fd_.get(), F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) != 0) {
    error = errno;
  }
  if (error != 0) {
    throw Error(ErrorKind::kResources,
                str("making ", size, " bytes of shared memory, '", name, "': ", errno_text(error)));
  }
  region.data_ = map(region.fd_.get(), size, true);
  region.size_ = size;
  return region;
}

SharedRegion SharedRegion::adopt(UniqueFd fd, size_t size, bool writable) {
  struct stat status {};
  int seals = ::fcntl(fd.get(), F_GET_SEALS);
  if (seals < 0 || (seals & F_SEAL_SHRINK) == 0 || ::fstat(fd.get(), &status) != 0 ||
      static_cast<size_t>(status.st_size) != size) {
    throw Error(ErrorKind::kCorrupt,
                str("received shared memory of ", status.st_size, " bytes with seals ", seals,
                    " where ", size, " bytes that cannot shrink were announced"));
  }
  SharedRegion region;
  region.data_ = map(fd.get(), size, writable);
  region.size_ = size;
  region.fd_ = std::move(fd);
  return region;
}

SharedRegion::SharedRegion(SharedRegion&& other) noexcept { *this = std::move(other); }

SharedRegion& SharedRegion::operator=(SharedRegion&& other) noexcept {
  std::swap(fd_, other.fd_);
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

SharedRegion::~SharedRegion() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

UniqueFd SharedRegion::duplicate() const {
  UniqueFd fd(::fcntl(fd_.get(), F_DUPFD_CLOEXEC, 0));
  if (!fd) throw_errno("duplicating a descriptor of shared memory");
  return fd;
}

}  // namespace manta
