#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/train/file_chunks_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"

namespace manta::train {
namespace {

constexpr size_t kChunkBytes = 1 << 20;

std::string read_bytes(int file, size_t size, uint64_t offset, const std::string& path) {
  std::string bytes(size, '\0');
  for (size_t done = 0; done < size;) {
    ssize_t got =
        ::pread(file, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_file_errno(str("reading '", path, "'"));
    if (got == 0) throw Error(ErrorKind::kCorrupt, str("'", path, "' has become shorter"));
    done += static_cast<size_t>(got);
  }
  return bytes;
}

void fetch_file(const std::string& folder, const std::string& name,
                const std::function<FileChunk(const WantChunk&)>& ask) {
  if (name != kManifestFile) check_file_name(name);
  std::string path = folder + "/" + name;
  make_folders(std::filesystem::path(path).parent_path());
  UniqueFd file = open_file(folder, name, O_WRONLY | O_CREAT | O_EXCL);
  for (uint64_t offset = 0;;) {
    FileChunk chunk = ask({name, offset});
    write_all(file.get(), chunk.bytes.data(), chunk.bytes.size(), path);
    offset += chunk.bytes.size();
    if (chunk.last) return close_written(std::move(file), path);
  }
}

}  // namespace

void write_chunk(const std::string& folder, const SendChunk& chunk) {
  check_file_name(chunk.name);
  std::string path = folder + "/" + chunk.name;
  make_folders(std::filesystem::path(path).parent_path());
  int flags = chunk.offset == 0 ? O_WRONLY | O_CREAT | O_EXCL : O_WRONLY;
  UniqueFd file = open_file(folder, chunk.name, flags);
  if (check_regular(file.get(), path) != chunk.offset)
    throw Error(ErrorKind::kCorrupt, str("parts of '", path, "' come in the wrong order"));
  if (::lseek(file.get(), 0, SEEK_END) < 0) throw_file_errno(str("writing '", path, "'"));
  write_all(file.get(), chunk.bytes.data(), chunk.bytes.size(), path);
  close_written(std::move(file), path);
}

FileChunk read_chunk(const std::string& folder, const WantChunk& wanted) {
  std::string path = folder + "/" + wanted.name;
  UniqueFd file = open_file(folder, wanted.name, O_RDONLY);
  size_t size = check_regular(file.get(), path);
  if (wanted.offset > size)
    throw Error(ErrorKind::kCorrupt, str("'", path, "' has become shorter"));
  FileChunk chunk;
  chunk.bytes =
      read_bytes(file.get(), std::min(kChunkBytes, size - wanted.offset), wanted.offset, path);
  chunk.last = wanted.offset + chunk.bytes.size() == size;
  return chunk;
}

void send_files(int64_t index, const CheckpointFolder& files,
                const std::function<void(SendChunk)>& send) {
  for (const CheckpointFile& each : files.files()) {
    std::string path = files.path() + "/" + each.name;
    UniqueFd file = open_file(files.path(), each.name, O_RDONLY);
    uint64_t offset = 0;
    do {
      size_t size = std::min<uint64_t>(kChunkBytes, each.size - offset);
      send({index, each.name, offset, read_bytes(file.get(), size, offset, path)});
      offset += size;
    } while (offset < each.size);
  }
}

std::vector<std::string> files_to_fetch(const Checkpoint& checkpoint) {
  std::vector<std::string> names = checkpoint.files();
  names.emplace_back(kManifestFile);
  return names;
}

void fetch_files(const std::string& folder, const std::vector<std::string>& names,
                 const std::function<FileChunk(const WantChunk&)>& ask) {
  for (const std::string& name : names) fetch_file(folder, name, ask);
}

}  // namespace manta::train
