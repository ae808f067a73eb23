#include "manta/io/collective_region.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cerrno>
#include <new>

#include "manta/base/error.h"
#include "manta/io/collective_layout_internal.h"

namespace manta {

size_t collective_region_bytes(int size) {
  auto ranks = static_cast<size_t>(size);
  size_t headers = (sizeof(RegionHeader) + ranks * sizeof(RankHeader) + 4095) / 4096 * 4096;
  return headers + 2 * ranks * kCollectiveSlotBytes;
}

UniqueFd create_shm_region(int size) {
  if (size < 1 || size > kMaxCollectiveRanks) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a group of ", size, " ranks on one host: it must have 1 to ",
                    kMaxCollectiveRanks, "; use Gloo for more"));
  }
  UniqueFd fd(::memfd_create("manta-collective", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!fd) throw_errno("memfd_create for the shared memory of a group");
  size_t bytes = collective_region_bytes(size);
  int error = ::posix_fallocate(fd.get(), 0, static_cast<off_t>(bytes));
  if (error != 0) {
    throw Error(ErrorKind::kResources, str("allocating ", bytes, " bytes of shared memory for ",
                                           size, " ranks: ", errno_text(error)));
  }
  RegionHeader header{};
  header.magic = kRegionMagic;
  header.version = kRegionVersion;
  header.size = size;
  constexpr size_t kWritten = offsetof(RegionHeader, failed);
  if (::pwrite(fd.get(), &header, kWritten, 0) != static_cast<ssize_t>(kWritten)) {
    throw_errno("writing the header of a group's shared memory");
  }
  if (::fcntl(fd.get(), F_ADD_SEALS, kRegionSeals) != 0) {
    throw_errno("sealing the shared memory of a group");
  }
  return fd;
}

}  // namespace manta
