#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// A file that appears with all its content, or not at all: it has no name until it is published.
/// If the process dies before, also by SIGKILL, the kernel removes it; only on file systems without
/// O_TMPFILE it then stays, under a hidden name.
class NewFile {
 public:
  /// In this folder, with the mode that the process gives new files. Throws Error(kIo) naming it.
  explicit NewFile(const std::string& folder);
  ~NewFile();  ///< Removes it, unless it was published.
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_.get(); }
  /// Gives it its name, in the same folder. Does not wait for the disk. Throws Error(kIo) if
  /// something has that name.
  void publish(const std::string& name);

 private:
  std::string folder_;
  UniqueFd fd_;
  std::string hidden_path_;  // only without O_TMPFILE
};

}  // namespace manta
