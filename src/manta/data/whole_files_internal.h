#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/data/data_files_internal.h"

namespace arrow {
class Buffer;
}

namespace manta::data {

/// Files that a source identifies by their sizes and the times of their last change: reading all of
/// many files for checksums when a plan is made would cost too much. Several threads use it at a
/// time.
class WholeFiles {
 public:
  WholeFiles(const FileKind& kind, std::vector<FoundFile> files)
      : kind_(kind), files_(std::move(files)) {}
  /// Reads them from the field "files".
  WholeFiles(const FileKind& kind, const JsonFields& fields);
  void add_to(Json& json) const;  ///< Adds this field.

  size_t count() const { return files_.size(); }
  const FoundFile& operator[](size_t file) const { return files_[file]; }
  std::vector<std::string> paths() const;
  std::string why_not_stored() const;

  /// Throws Error(kCorrupt) if the file has changed since the plan was made.
  std::shared_ptr<arrow::io::RandomAccessFile> open(size_t file) const;
  /// Reads all of its bytes, or some. Throws Error(kIo), or Error(kCorrupt) if the file ends before
  /// them.
  std::shared_ptr<arrow::Buffer> read(size_t file) const;
  std::shared_ptr<arrow::Buffer> read(size_t file, int64_t from, int64_t bytes) const;

 private:
  const FileKind& kind_;
  std::vector<FoundFile> files_;
};

/// Consecutive files [first, end) that are read together.
using FileGroup = std::pair<size_t, size_t>;
/// Groups of files with at most `most_bytes` together, by their `bytes`, and with at least one file
/// each.
std::vector<FileGroup> group_files(const std::vector<int64_t>& bytes, int64_t most_bytes);

}  // namespace manta::data
