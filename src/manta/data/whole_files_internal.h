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

/// Files that a source knows by their sizes and the times of their last change: reading all of them
/// when a plan is made, for checksums, would cost too much where they are many. Several threads use
/// it at a time.
class WholeFiles {
 public:
  WholeFiles(const FileKind& kind, std::vector<FoundFile> files)
      : kind_(kind), files_(std::move(files)) {}
  /// From the field "files".
  WholeFiles(const FileKind& kind, const JsonFields& fields);
  void add_to(Json& json) const;  ///< This field.

  size_t count() const { return files_.size(); }
  const FoundFile& operator[](size_t file) const { return files_[file]; }
  std::vector<std::string> paths() const;
  std::string why_not_stored() const;

  /// Throws Error(kCorrupt) if it has changed since the plan was made.
  std::shared_ptr<arrow::io::RandomAccessFile> open(size_t file) const;
  /// All of its bytes, or some. Throws Error(kIo), or Error(kCorrupt) if it ends before them.
  std::shared_ptr<arrow::Buffer> read(size_t file) const;
  std::shared_ptr<arrow::Buffer> read(size_t file, int64_t from, int64_t bytes) const;

 private:
  const FileKind& kind_;
  std::vector<FoundFile> files_;
};

/// Consecutive files [first, end) that are read together.
using FileGroup = std::pair<size_t, size_t>;
/// As many files as have `most_bytes` together, by their `bytes`, and at least one.
std::vector<FileGroup> group_files(const std::vector<int64_t>& bytes, int64_t most_bytes);

}  // namespace manta::data
