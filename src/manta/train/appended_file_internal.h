#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

/// A file that grows by whole parts: a part that could not be written leaves nothing behind, so
/// that it can be written again.
class AppendedFile {
 public:
  /// The file `name` ("file", or "inner/file") in a folder. The path of the folder is the user's
  /// own and may lead over links; the path inside it may not. Opens the file when it is first
  /// needed.
  AppendedFile(std::string folder, std::string name)
      : folder_(std::move(folder)), name_(std::move(name)), path_(folder_ + "/" + name_) {}

  /// Throws Error(kIo), e.g. if the disk is full; Error(kCorrupt) if it is a link or no
  /// file, or has another name.
  void append(const std::string& part);
  const std::string& path() const { return path_; }

 private:
  void open();

  const std::string folder_, name_, path_;
  UniqueFd fd_;
  off_t size_ = 0;  // of the whole parts
};

}  // namespace manta::train
