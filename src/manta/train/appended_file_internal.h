#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

/// A file that grows by whole parts: one that could not be written leaves nothing of itself behind,
/// so that it can be written again.
class AppendedFile {
 public:
  /// Opens it when it is first needed.
  explicit AppendedFile(std::string path) : path_(std::move(path)) {}

  /// Throws Error(kIo), e.g. if the disk is full; Error(kCorrupt) if it is a link or no file.
  void append(const std::string& part);
  const std::string& path() const { return path_; }

 private:
  void open();

  std::string path_;
  UniqueFd fd_;
  off_t size_ = 0;  // of what is whole
};

}  // namespace manta::train
