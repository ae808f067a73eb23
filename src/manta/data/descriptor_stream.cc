#include <sys/statvfs.h>
#include <unistd.h>

#include <cerrno>

#include "manta/base/error_internal.h"
#include "manta/data/descriptor_stream_internal.h"

namespace manta::data {

DescriptorStream::DescriptorStream(int fd, int64_t at, std::string folder)
    : fd_(fd), folder_(std::move(folder)), begin_(at), at_(at) {}

arrow::Status DescriptorStream::Write(const void* data, int64_t size) {
  auto* from = static_cast<const char*>(data);
  while (size > 0) {
    ssize_t written = ::pwrite(fd_, from, static_cast<size_t>(size), at_);
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      int error = errno;
      return arrow::Status::IOError(errno_text(error), is_full(error) ? room_text(folder_) : "");
    }
    from += written;
    at_ += written;
    size -= written;
  }
  return arrow::Status::OK();
}

bool is_full(int error) { return error == ENOSPC || error == EDQUOT || error == EFBIG; }

std::string room_text(const std::string& folder, const char* has, const char* left) {
  struct statvfs disk {};
  if (::statvfs(folder.c_str(), &disk) != 0) return "";
  return str("; '", folder, "' ", has, " ", static_cast<uint64_t>(disk.f_bavail) * disk.f_frsize,
             " bytes ", left);
}

}  // namespace manta::data
