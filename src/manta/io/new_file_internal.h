#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// A file that appears with all its content, or not at all: it has no name until it is published.
/// If the process dies before, even by SIGKILL, the kernel removes the file. Only on file systems
/// without O_TMPFILE does it stay, under a hidden name.
class NewFile {
 public:
  /// Makes the file in this folder, with the mode that the process gives new files. Throws
  /// Error(kIo) that names the folder.
  explicit NewFile(const std::string& folder);
  ~NewFile();  ///< Removes it, unless it was published.
  NewFile(const NewFile&) = delete;
  NewFile& operator=(const NewFile&) = delete;

  int fd() const { return fd_.get(); }
  /// Gives the file its name, in the same folder. Does not wait for the disk. Throws Error(kIo) if
  /// the name is taken.
  void publish(const std::string& name);

 private:
  std::string folder_;
  UniqueFd fd_;
  std::string hidden_path_;  // only without O_TMPFILE
};

}  // namespace manta
