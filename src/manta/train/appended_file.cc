#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "manta/train/appended_file_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {

void AppendedFile::open() {
  make_folders_to(folder_, name_);
  UniqueFd fd = open_file(folder_, name_, O_WRONLY | O_APPEND | O_CREAT);
  check_single_name(fd.get(), path_);
  size_ = static_cast<off_t>(check_regular(fd.get(), path_));
  fd_ = std::move(fd);
}

void AppendedFile::append(const std::string& part) {
  if (part.empty()) return;
  if (!fd_) open();
  // Cuts off a part that an earlier call could not complete.
  if (::ftruncate(fd_.get(), size_) != 0) throw_file_errno(str("cutting '", path_, "'"));
  write_all(fd_.get(), part.data(), part.size(), path_);
  size_ += static_cast<off_t>(part.size());
}

}  // namespace manta::train
