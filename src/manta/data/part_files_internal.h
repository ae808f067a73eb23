#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json_input_internal.h"
#include "manta/data/data_files_internal.h"
#include "manta/data/source_internal.h"

namespace arrow {
class Buffer;
}

namespace manta::data {

/// A file that is open.
struct PartFile {
  const FileKind& kind;
  const std::string& path;
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  int64_t size = 0;
};

/// Bytes of the file. Throws Error(kIo), or Error(kCorrupt) if it ends before them.
std::shared_ptr<arrow::Buffer> read_bytes(const PartFile& file, int64_t from, int64_t bytes);
/// The number of the line, from 1, that this byte of the file is in: \n, \r and \r\n end a line.
int64_t line_at(const PartFile& file, int64_t offset);
std::string checksum_of(std::string_view bytes);
/// How many bytes the byte order mark at the beginning takes. Throws Error(kInvalidArgument) for
/// what is no UTF-8 text by its first bytes: UTF-16, compressed files, Parquet.
int64_t after_mark(const PartFile& file);

/// Records of a file, one part after the other.
struct FileParts {
  std::vector<int64_t> offsets;        ///< Where they begin, and the end of the last one.
  std::vector<std::string> checksums;  ///< Of the bytes of each.
};

/// The longest record that is taken.
inline constexpr int64_t kLongestRecord = 256 << 20;

/// Where the whole records at the beginning of a text end; all of it `at_end` of the file.
using WholeRecords = std::function<size_t(std::string_view text, bool at_end)>;
/// Cuts the file from `offset` to its end into parts of about `bytes`, reading it once. `too_long`
/// throws what is wrong with the record that begins at an offset and does not end within
/// kLongestRecord.
FileParts cut_into_parts(const PartFile& file, int64_t offset, int64_t bytes,
                         const WholeRecords& whole, const std::function<void(int64_t)>& too_long);
/// For files whose records are lines that end in \n.
FileParts cut_lines(const PartFile& file, int64_t offset, int64_t bytes);

/// The largest `.fragment_bytes`.
inline constexpr int64_t kMaxFragmentBytes = 256 << 20;
void check_fragment_bytes(const FileKind& kind, int64_t bytes);

/// How many rows some bytes of the first file have, by which the rows of a part are estimated.
struct RowSample {
  int64_t rows = 1;
  int64_t bytes = 1;
};

/// Files of records, which are read in parts. A file that has changed since it was first opened, or
/// since the plan was stored, is Error(kCorrupt): its size, the checksum of its ends and the
/// checksum of each part are compared. Several threads use it at a time.
class PartFiles {
 public:
  PartFiles(const FileKind& kind, std::vector<FoundFile> files);
  /// From the fields "files", "sample_rows" and "sample_bytes".
  PartFiles(const FileKind& kind, const JsonFields& fields);
  void add_to(Json& json);  ///< These fields. The parts must be known.

  size_t count() const { return files_.size(); }
  const std::string& path(size_t file) const { return files_[file]->path; }
  std::vector<std::string> paths() const;
  PartFile open(size_t file);
  void set_sample(const RowSample& sample) { sample_ = sample; }

  /// Cuts the files, the first time.
  const std::vector<Fragment>& fragments(const std::function<FileParts(const PartFile&)>& cut);

  struct Part {
    size_t file = 0;
    int64_t begin = 0;
    int64_t end = 0;
    std::string checksum;
  };
  const Part& part(size_t fragment) const { return parts_[fragment]; }
  /// Its bytes, which are those that it had.
  std::shared_ptr<arrow::Buffer> read(const PartFile& file, const Part& part) const;
  /// "bytes 0 to 100 of 'a.csv'".
  std::string describe(size_t fragment) const;
  /// "3 files in 5 parts; first file 'a.csv'". The parts must be known.
  std::string to_string() const;
  std::string why_not_stored() const;

 private:
  struct File {
    std::string path;
    std::mutex mutex;                // of what follows
    std::optional<FileStamp> stamp;  // once it was opened
    int64_t size = 0;
    std::string checksum;  // of its ends
    FileParts parts;       // none before they are known
  };
  void add_file(std::string path);
  void add_parts(size_t file);
  [[noreturn]] void throw_changed(const std::string& path, const std::string& how) const;

  const FileKind& kind_;
  RowSample sample_;
  std::vector<std::unique_ptr<File>> files_;
  std::mutex mutex_;  // of everything below
  std::vector<Part> parts_;
  std::vector<Fragment> fragments_;
  bool all_known_ = false;  // the two before it, which then never change
};

/// The field "path" of a file in a plan's JSON.
std::string file_path(const JsonFields& file);
/// Why a plan with these paths cannot be stored; empty if it can.
std::string why_not_stored(const std::vector<std::string>& paths);

}  // namespace manta::data
