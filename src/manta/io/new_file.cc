#include <fcntl.h>
#include <unistd.h>

#include <random>

#include "manta/base/error_internal.h"
#include "manta/io/new_file_internal.h"

namespace manta {
namespace {

constexpr mode_t kModeOfNewFiles = 0666;  // less the umask

std::string hidden_name() {
  std::random_device random;
  return str(".manta-", ::getpid(), "-", random(), ".tmp");
}

}  // namespace

NewFile::NewFile(const std::string& folder) : folder_(folder) {
  fd_ = UniqueFd(::open(folder.c_str(), O_TMPFILE | O_RDWR | O_CLOEXEC, kModeOfNewFiles));
  if (fd_) return;
  // The file system may not have it: EOPNOTSUPP, or EISDIR from an old kernel.
  if (errno == EOPNOTSUPP || errno == EISDIR) {
    hidden_path_ = folder + "/" + hidden_name();
    fd_ = UniqueFd(
        ::open(hidden_path_.c_str(), O_CREAT | O_EXCL | O_RDWR | O_CLOEXEC, kModeOfNewFiles));
  }
  if (!fd_) throw_errno(str("making a file in '", folder, "'"));
}

NewFile::~NewFile() {
  if (!hidden_path_.empty()) ::unlink(hidden_path_.c_str());
}

void NewFile::publish(const std::string& name) {
  std::string path = folder_ + "/" + name;
  std::string from = hidden_path_.empty() ? str("/proc/self/fd/", fd_.get()) : hidden_path_;
  if (::linkat(AT_FDCWD, from.c_str(), AT_FDCWD, path.c_str(), AT_SYMLINK_FOLLOW) != 0) {
    throw_errno(str("giving a new file the name '", path, "'"));
  }
  if (!hidden_path_.empty()) ::unlink(hidden_path_.c_str());
  hidden_path_.clear();
}

}  // namespace manta
