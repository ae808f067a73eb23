#pragma once

#include <functional>
#include <mutex>
#include <optional>
#include <string>

#include "manta/base/json.h"
#include "manta/io/remote_files_internal.h"
#include "manta/train/checkpoint.h"

namespace manta::train {

/// Copies <folder>/<name> to an address, where it appears whole or not at all. `at_times` is called
/// when the store has taken another 16 MB, and finally when the file is about to appear; if it
/// throws, the file does not appear. Throws as open_file and NewRemoteFile.
void upload_file(const std::string& folder, const std::string& name, const RemoteAddress& to,
                 const std::function<void(bool is_last)>& at_times = {});

/// Appends a file at an address to an open file, in parts of bounded size. `expected` is the size
/// that its manifest gives: Error(kCorrupt) if the file has another. Without `expected`, for a file
/// that a driver may be appending to, the file is taken as it is. `on_part` gets each part.
void download_file(const RemoteAddress& from, std::optional<uint64_t> expected, int fd,
                   const std::string& path,
                   const std::function<void(const void* data, size_t bytes)>& on_part = {});

/// The manifest of the checkpoint at an address, every field checked. Throws Error(kNotFound) if
/// there is none: then there is no checkpoint. Error(kCorrupt), Error(kIo).
Json read_remote_manifest(const RemoteAddress& checkpoint);

/// Downloads the checkpoint at an address into a folder, which must exist and be empty. It compares
/// sizes and checksums on the way, and writes the manifest last. Throws Error(kNotFound),
/// Error(kCorrupt) naming the file, Error(kIo).
void download_checkpoint(const RemoteAddress& from, const std::string& folder);

/// A checkpoint at an address whose files are fetched when they are first needed, once for all
/// copies of the Checkpoint. Any thread may use it.
class StoredCheckpoint {
 public:
  /// The Checkpoint; reads nothing. `manifest` is that of the address.
  static Checkpoint at(const std::string& uri, Json manifest);

  explicit StoredCheckpoint(std::string uri) : uri_(std::move(uri)) {}
  /// The folder that has the files. Throws as Checkpoint::from_uri, and Error(kCorrupt) if the
  /// checkpoint at the address is not the one that `manifest` describes.
  const std::string& fetch(const Json& manifest);

 private:
  const std::string uri_;
  std::mutex mutex_;
  Checkpoint fetched_;
};

}  // namespace manta::train
