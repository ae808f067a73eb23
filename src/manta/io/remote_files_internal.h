#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/names_internal.h"

namespace arrow {
class Status;
namespace io {
class OutputStream;
class RandomAccessFile;
}  // namespace io
}  // namespace arrow

/// Files in stores other than this machine's file systems, by address: s3://bucket/folder/file, and
/// every other scheme that Arrow knows (gs://, hdfs://). Connections are made when they are first
/// needed, in the process that needs them. Libraries that start threads, such as the S3 library,
/// are not loaded before, so a zygote that uses no address has no such threads. Several threads may
/// use everything here.
///
/// Every call ends: a server of S3 that cannot be reached within a second, or is silent for three,
/// is Error(kIo), after three tries.
namespace manta {

/// "s3://anonymous@bucket/folder/a.csv?region=eu-central-1". The path is taken as it is
/// written: nothing in it is decoded, and the first '?' ends it.
struct RemoteAddress {
  std::string scheme;     ///< "s3"
  std::string authority;  ///< "anonymous@bucket"
  std::string path;       ///< "folder/a.csv", without a slash at either end.
  std::string query;      ///< "region=eu-central-1"

  std::string text() const;
  RemoteAddress with_path(std::string other) const;
  RemoteAddress child(const std::string& name) const;
};

/// Nothing if the text is a path. Throws Error(kInvalidArgument) for an address with a secret key
/// in it, which plans would store and messages print.
std::optional<RemoteAddress> remote_address(const std::string& text);

struct RemoteFileInfo {
  RemoteAddress address;
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};  ///< To the second, or better.
};

/// What an address holds: kNothing if there is no file or folder, or if its bucket does not exist.
/// Throws Error(kInvalidArgument) if access is refused, Error(kIo).
struct RemoteEntry {
  enum Kind { kNothing, kFile, kFolder };
  Kind kind = kNothing;
  RemoteFileInfo info;  ///< Only for a file.
};
RemoteEntry look_at(const RemoteAddress& address);
/// All files below a folder, in no order; none if there is no such folder. Files that were not
/// published are left out.
std::vector<RemoteFileInfo> list_files_below(const RemoteAddress& folder);

struct OpenRemoteFile {
  /// Its errors are I/O errors with an errno, so that the reader knows that a retry may help.
  std::shared_ptr<arrow::io::RandomAccessFile> file;
  int64_t size = 0;
  std::chrono::nanoseconds modified{0};
  std::string tag;  ///< Changes with the content (S3: the ETag); empty if the store has none.
};
/// Throws as look_at, and Error(kNotFound).
OpenRemoteFile open_remote(const RemoteAddress& address);

/// Removes the file. Success if there is none.
void remove_remote(const RemoteAddress& address);
/// Removes the folder with everything below it. Success if there is no such folder.
void remove_remote_folder(const RemoteAddress& folder);

/// Reads the whole file, as it was at one moment, even if it is replaced meanwhile. Throws as
/// open_remote, and Error(kCorrupt) if it has more bytes.
std::string read_remote(const RemoteAddress& address, size_t most);
/// Writes a new file, or replaces one: readers see the old content or the new, never a mixture.
void write_remote(const RemoteAddress& address, std::string_view text);

/// A file that appears with all its content when it is published, or not at all. If the process
/// dies before, S3 keeps an unfinished upload, which readers do not see, until the bucket's rule
/// for unfinished uploads removes it; other stores keep a file with a hidden name.
class NewRemoteFile {
 public:
  explicit NewRemoteFile(const RemoteAddress& address);
  /// Abandons the file, unless it was published. It does not appear, even if the store does not
  /// answer.
  ~NewRemoteFile();
  NewRemoteFile(const NewRemoteFile&) = delete;
  NewRemoteFile& operator=(const NewRemoteFile&) = delete;

  const std::shared_ptr<arrow::io::OutputStream>& stream() const { return stream_; }
  /// Closes the stream, too. Replaces a file that is there.
  void publish();

 private:
  const RemoteAddress address_;
  std::string hidden_;  // the path that is written to; empty: its own
  std::shared_ptr<arrow::io::OutputStream> stream_;
};

/// The Error for a failed status of such a store.
Error remote_error(const arrow::Status& status, const std::string& doing);

}  // namespace manta
