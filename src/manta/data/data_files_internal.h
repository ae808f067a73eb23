#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace arrow::io {
class RandomAccessFile;
}

namespace manta::data {

/// What sort of files a source reads.
struct FileKind {
  const char* reader;     ///< How messages begin: "read_parquet".
  const char* extension;  ///< Of the files of a folder that are read: ".parquet".
};

/// The files that paths mean, absolute. A path is a file, a folder (all files of this kind below
/// it, sorted, without files and folders whose names begin with '.' or '_') or a pattern such as
/// `data/2020-*.parquet` (all that match, sorted). Throws Error(kNotFound) if there is none,
/// Error(kInvalidArgument) for addresses such as s3:// and for what is no regular file: opening a
/// fifo would wait for a writer.
std::vector<std::string> find_files(const FileKind& kind, const std::vector<std::string>& paths);

/// By which one sees that a path leads to another file than before, or that the file was written.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};
  bool operator==(const FileStamp&) const = default;
};

struct DataFile {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  FileStamp stamp;  ///< When it was opened.
};

/// Opens a regular file, and nothing else. Throws Error(kNotFound), Error(kInvalidArgument) or
/// Error(kIo), naming it.
DataFile open_data_file(const FileKind& kind, const std::string& path);

}  // namespace manta::data
