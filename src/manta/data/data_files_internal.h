#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace arrow::io {
class RandomAccessFile;
}

namespace manta::data {

/// The kind of files that a source reads.
struct FileKind {
  const char* reader;  ///< How messages begin: "read_parquet".
  /// The extensions of the files that are read in a folder, separated by spaces: ".json .jsonl";
  /// also in upper case. Empty: all files.
  const char* extensions;
};
/// Whether a file of this name in a folder is read.
bool has_extension(std::string_view extensions, const std::string& name);
/// Calls the function for each file below a folder that is read, in any order; also for things with
/// such a name that are not files. It follows links to folders, except to a folder that contains
/// the link, and visits each folder below a link only once. Throws
/// std::filesystem::filesystem_error.
void for_files_below(const std::string& folder, std::string_view extensions,
                     const std::function<void(const std::filesystem::path&)>& take);

/// A file that exists.
struct FoundFile {
  std::string path;  ///< Absolute, or an address.
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};
  /// Its path below the folder that was named, or below the last folder before a pattern's first *
  /// or other special character: "year=2020/a.parquet".
  std::string below = {};
};

/// The files that the paths name. A path is a file, a folder (all files of this kind below it,
/// sorted, also behind links to folders, without files and folders whose names begin with '.' or
/// '_') or a pattern such as `data/2020-*.parquet` (all that match, sorted); or the same as an
/// address (remote_files_internal.h, where '?' begins the query, so that patterns have * and []
/// only). Throws Error(kNotFound) if there is none, Error(kInvalidArgument) for anything but a
/// regular file: opening a fifo would wait for a writer. No path at all is Error(kInvalidArgument),
/// too.
std::vector<FoundFile> find_files(const FileKind& kind, const std::vector<std::string>& paths);

/// Shows whether a path leads to another file than before, or whether the file was written.
struct FileStamp {
  uint64_t device = 0;
  uint64_t inode = 0;
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};
  std::string tag = {};  ///< Only for a remote file.
  bool operator==(const FileStamp&) const = default;
};

struct DataFile {
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  FileStamp stamp;  ///< The stamp when it was opened.
};

/// Opens a regular file, and nothing else, or a remote one. Throws Error(kNotFound),
/// Error(kInvalidArgument) or Error(kIo), naming it.
DataFile open_data_file(const FileKind& kind, const std::string& path);

/// Whether a path is an address, so that opening it anew costs a request, and content may change
/// between two reads of an open file.
bool is_remote(const std::string& path);

}  // namespace manta::data
