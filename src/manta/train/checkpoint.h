#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "manta/base/json.h"

namespace manta {

class AnyPreprocessor;

namespace train {
class CheckpointStore;
class StoredCheckpoint;
}  // namespace train

/// A tensor of any framework, as bytes: its values in row-major order, little endian.
struct TensorBytes {
  std::string dtype =
      "F32";  ///< As in safetensors: F64, F32, F16, BF16, I64, I32, I16, I8, U8, BOOL.
  std::vector<int64_t> shape;  ///< {} for a single value.
  std::string bytes;

  bool operator==(const TensorBytes&) const = default;
};

/// A checkpoint as values: JSON, and tensors by name.
struct CheckpointDict {
  Json values = Json::object();
  std::map<std::string, TensorBytes> tensors = {};
};

/// A committed directory of files: it exists completely, with a manifest of sizes and checksums, or
/// not at all. This class is a value that names the directory.
///
/// A checkpoint made from bytes, from values or from a remote address is kept in a temporary
/// folder, which is removed with the last copy of the Checkpoint. Use `to_directory` to keep it. If
/// a run's RunConfig::storage_path is an address, the checkpoints in its Result are at that
/// address. The first call that needs their files, such as `path` or `file`, fetches them into such
/// a folder, and throws as `from_uri` does.
class Checkpoint {
 public:
  Checkpoint() = default;  ///< None.
  /// A checkpoint on disk. Reads all of it once. Throws Error(kNotFound) if there is no manifest
  /// (use `from_files` for a folder that Manta has not written), Error(kCorrupt) naming the file if
  /// sizes or checksums differ, or if the file is a link.
  static Checkpoint from_directory(const std::string& path);
  /// Like from_directory, but checks only the sizes: for a checkpoint that this run has just
  /// committed.
  static Checkpoint open(const std::string& path);

  /// Copies the files in any folder, yours or another program's, and in its subfolders, as a
  /// checkpoint of report 0, without metrics. Throws Error(kNotFound) if there is no such folder;
  /// Error(kInvalidArgument) if the folder has no file, has a `manifest.json` (each checkpoint has
  /// its own), or has anything that is neither a file nor a folder, such as a link; Error(kIo).
  static Checkpoint from_files(const std::string& folder);

  /// Copies the checkpoint to a folder, which must be empty or not exist, and checks all files.
  /// Throws Error(kInvalidArgument) if the folder is not empty, Error(kIo), Error(kCorrupt).
  Checkpoint to_directory(const std::string& path) const;

  /// Values become the files dict.json and dict.safetensors, which Python reads, too. Throws
  /// Error(kInvalidArgument) if a tensor's number of bytes does not fit its type and shape, or if
  /// the values are not an object that JSON can hold.
  static Checkpoint from_dict(const CheckpointDict& dict);
  /// Throws Error(kNotFound) unless it was made by from_dict, Error(kCorrupt) naming the file.
  CheckpointDict to_dict() const;

  /// The whole checkpoint as one string, for a message or a database. The string takes as much
  /// memory as the files.
  std::string to_bytes() const;
  /// The reverse of to_bytes. The bytes may come from anywhere: Error(kCorrupt) says what is wrong
  /// with them.
  static Checkpoint from_bytes(std::string_view bytes);

  /// Writes the checkpoint to a folder at an address such as s3://bucket/folder, or at a path. The
  /// manifest is written last: until then there is no checkpoint. Throws Error(kInvalidArgument) if
  /// there is a checkpoint already or access is refused, Error(kNotFound) for a bucket that does
  /// not exist, Error(kIo).
  void to_uri(const std::string& uri) const;
  /// Reads a folder at an address into a temporary folder; for a path it is from_directory. Throws
  /// Error(kNotFound) if there is no manifest, Error(kCorrupt) naming the file that differs from
  /// it, Error(kIo).
  static Checkpoint from_uri(const std::string& uri);

  explicit operator bool() const { return !path_.empty() || stored_; }
  /// The folder on this machine.
  const std::string& path() const;
  /// The place that other machines can use: the address that it is at or came from; otherwise
  /// `path`.
  const std::string& uri() const { return uri_.empty() ? path_ : uri_; }
  /// The path of one of its files. Throws Error(kNotFound) listing the existing ones.
  std::string file(const std::string& name) const;
  std::vector<std::string> files() const;
  /// The preprocessor that the run was given, fitted; none if it had none. Throws Error(kNotFound)
  /// if this program has no preprocessor of that name.
  AnyPreprocessor get_preprocessor() const;
  /// The metrics of the report that it came with.
  Json metrics() const;
  /// All of manifest.json.
  const Json& manifest() const { return manifest_; }

 private:
  friend class train::CheckpointStore;  // renames a checkpoint that it has looked at
  friend class train::StoredCheckpoint;

  static Checkpoint in_temporary_folder(const std::function<void(const std::string& path)>& fill);

  std::string path_;
  std::string uri_;  // empty: path_
  Json manifest_;
  std::shared_ptr<const void> folder_;               // removes it, if it is temporary
  std::shared_ptr<train::StoredCheckpoint> stored_;  // in the place of path_: not fetched yet
};

/// One file of a checkpoint.
struct CheckpointFile {
  std::string name;  ///< Relative to the checkpoint's directory, with '/'.
  uint64_t size = 0;
  std::string checksum;  ///< XXH3-64 in hex.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, size, checksum);
  }
};

/// Throws Error(kInvalidArgument) unless `name` can be a file of a checkpoint: a relative path with
/// '/' between its parts, none of which is empty, "." or "..", and not "manifest.json".
void check_file_name(const std::string& name);

/// Where a checkpoint's files are written. Computes their checksums on the way.
class CheckpointFolder {
 public:
  /// Creates the folder if it does not exist. It and its files get the permissions of its parent.
  /// `on_written` is called after each part of a file, of a few MB at most.
  explicit CheckpointFolder(std::string path, std::function<void()> on_written = {});
  const std::string& path() const { return path_; }

  /// Writes one file from parts, in order. check_file_name says which names are allowed; each may
  /// be used once. Throws Error(kIo) naming the file, e.g. if the disk is full, and removes what it
  /// wrote of it.
  struct Bytes {
    const void* data = nullptr;
    size_t size = 0;
  };
  void write(const std::string& name, const std::vector<Bytes>& parts);
  void write(const std::string& name, const std::string& text);
  /// Copies an existing file. Throws Error(kNotFound) if there is none.
  void copy(const std::string& name, const std::string& from);
  const std::vector<CheckpointFile>& files() const { return files_; }

 private:
  class Output;  // one file on its way

  std::string path_;
  std::function<void()> on_written_;
  std::vector<CheckpointFile> files_;
};

/// What a worker gives to train::report: makes the files of a checkpoint.
class CheckpointSource {
 public:
  virtual ~CheckpointSource() = default;
  /// Copies everything that the loop may change after report() has returned; report() calls it.
  virtual void stage() = 0;
  /// Writes the files, on a background thread. Not called if `stage` threw.
  virtual void write(CheckpointFolder& folder) = 0;
  /// A digest of the values that all replicas should have in common; nothing if it cannot tell.
  virtual std::optional<uint64_t> fingerprint() const { return std::nullopt; }
  /// Whether it has a model that was trained in this process and that nothing has kept equal to the
  /// other ranks' models, as far as it can tell. Known once `stage` has returned.
  virtual bool was_trained_alone() const { return false; }
  /// Whether it is only this rank's part: the checkpoint needs a part of every rank.
  virtual bool needs_all_ranks() const { return false; }
};

}  // namespace manta
