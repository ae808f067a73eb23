#include <arrow/buffer.h>
#include <arrow/io/interfaces.h>
#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/remote_checkpoint_internal.h"

namespace manta::train {
namespace {

constexpr size_t kPartBytes = size_t{8} << 20;
// The library keeps unsent bytes in memory, and would keep a whole file. This limit is larger than
// one part of the library, so that each flush sends something.
constexpr size_t kMostUnsent = size_t{16} << 20;

}  // namespace

void upload_file(const std::string& folder, const std::string& name, const RemoteAddress& to,
                 const std::function<void(bool is_last)>& at_times) {
  std::string doing = str("writing '", to.text(), "'");
  std::string path = folder + "/" + name;
  UniqueFd fd = open_file(folder, name, O_RDONLY);
  NewRemoteFile file(to);
  auto require = [&](const arrow::Status& status) {
    if (!status.ok()) throw remote_error(status, doing);
  };
  std::string buffer(kPartBytes, '\0');
  for (size_t unsent = 0;;) {
    ssize_t got = ::read(fd.get(), buffer.data(), buffer.size());
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", path, "'"));
    if (got == 0) break;
    require(file.stream()->Write(buffer.data(), got));
    unsent += static_cast<size_t>(got);
    if (unsent < kMostUnsent) continue;
    require(file.stream()->Flush());
    unsent = 0;
    if (at_times) at_times(false);
  }
  require(file.stream()->Flush());
  if (at_times) at_times(true);
  file.publish();
}

void download_file(const RemoteAddress& from, std::optional<uint64_t> expected, int fd,
                   const std::string& path,
                   const std::function<void(const void* data, size_t bytes)>& on_part) {
  OpenRemoteFile source = open_remote(from);
  auto size = static_cast<uint64_t>(source.size);
  if (expected && size != *expected)
    throw Error(ErrorKind::kCorrupt,
                str("'", from.text(), "' has ", size, " bytes instead of ", *expected));
  for (uint64_t at = 0; at < size;) {
    auto bytes = source.file->ReadAt(
        static_cast<int64_t>(at), static_cast<int64_t>(std::min<uint64_t>(kPartBytes, size - at)));
    if (!bytes.ok()) throw remote_error(bytes.status(), str("reading '", from.text(), "'"));
    const auto& buffer = **bytes;
    if (buffer.size() == 0)
      throw Error(ErrorKind::kIo, str("'", from.text(), "' became shorter meanwhile"));
    write_all(fd, buffer.data(), static_cast<size_t>(buffer.size()), path);
    if (on_part) on_part(buffer.data(), static_cast<size_t>(buffer.size()));
    at += static_cast<uint64_t>(buffer.size());
  }
}

Json read_remote_manifest(const RemoteAddress& checkpoint) {
  RemoteAddress address = checkpoint.child(kManifestFile);
  std::string text;
  try {
    text = read_remote(address, kMostManifestBytes);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound, str("there is no checkpoint at '", checkpoint.text(),
                                          "': it has no ", kManifestFile));
  }
  return parse_manifest(text, str("'", address.text(), "'"));
}

void download_checkpoint(const RemoteAddress& from, const std::string& folder) {
  Json manifest = read_remote_manifest(from);
  for (const Json& file : manifest["files"]) {
    std::string name = file["name"];
    std::string path = folder + "/" + name;
    auto damaged = [&](const std::string& why) {
      throw Error(ErrorKind::kCorrupt, str("checkpoint '", from.text(), "' is damaged: its file '",
                                           name, "' is not what the manifest says: ", why));
    };
    make_folders(std::filesystem::path(path).parent_path());
    UniqueFd fd = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
    Checksum checksum;
    try {
      download_file(from.child(name), file["size"].get<uint64_t>(), fd.get(), path,
                    [&](const void* data, size_t bytes) { checksum.add(data, bytes); });
    } catch (const Error& error) {
      if (!is_damage(error)) throw;
      damaged(error.what());
    }
    if (::close(fd.release()) != 0) throw_errno(str("closing '", path, "'"));
    std::string expected = file["checksum"];
    if (checksum.hex() != expected)
      damaged(str("its checksum is ", checksum.hex(), " instead of ", expected));
  }
  // Unchanged: its checksum covers its values.
  replace_file(folder + "/" + kManifestFile, to_text(manifest, /*indent=*/1));
}

Checkpoint StoredCheckpoint::at(const std::string& uri, Json manifest) {
  Checkpoint checkpoint;
  checkpoint.uri_ = uri;
  checkpoint.manifest_ = std::move(manifest);
  checkpoint.stored_ = std::make_shared<StoredCheckpoint>(uri);
  return checkpoint;
}

const std::string& StoredCheckpoint::fetch(const Json& manifest) {
  std::lock_guard lock(mutex_);
  if (!fetched_) {
    Checkpoint fetched = Checkpoint::from_uri(uri_);
    if (fetched.manifest() != manifest)
      throw Error(ErrorKind::kCorrupt,
                  str("there is another checkpoint at '", uri_, "' now than this one was"));
    fetched_ = std::move(fetched);
  }
  return fetched_.path();
}

}  // namespace manta::train
