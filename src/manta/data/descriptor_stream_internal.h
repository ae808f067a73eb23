#pragma once

#include <arrow/io/interfaces.h>

#include <cstdint>
#include <string>

#include "manta/base/names_internal.h"

namespace manta::data {

/// Writes to a file's descriptor. Other code may write to other parts of the file, and the stream
/// does not close it. If the disk is full, its errors say how much room the folder has.
class DescriptorStream final : public arrow::io::OutputStream {
 public:
  /// Writes from the byte `at` on. `folder`: where the file is.
  DescriptorStream(int fd, int64_t at, std::string folder);
  arrow::Status Close() override { return arrow::Status::OK(); }
  bool closed() const override { return false; }
  arrow::Result<int64_t> Tell() const override { return at_ - begin_; }
  using arrow::io::OutputStream::Write;
  arrow::Status Write(const void* data, int64_t size) override;
  /// Where the next byte goes.
  int64_t at() const { return at_; }

 private:
  const int fd_;
  const std::string folder_;
  const int64_t begin_;
  int64_t at_;
};

/// Advice for messages about a temporary folder.
inline constexpr const char* kMoreRoom =
    "; set TMPDIR or InitOptions::temporary_folder to a disk with more room";
/// Whether an error of the operating system says that there is no room for more.
bool is_full(int error);
/// "; '/tmp' has 4096 bytes left", or nothing if the folder cannot be asked.
std::string room_text(const std::string& folder, const char* has = "has",
                      const char* left = "left");

}  // namespace manta::data
