#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/remote_files_internal.h"
#include "manta/train/checkpoint.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/remote_checkpoint_internal.h"
#include "manta/train/tensor_file_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

constexpr const char* kDictValues = "dict.json";
constexpr const char* kDictTensors = "dict.safetensors";
constexpr const char* kManifestName = train::kManifestFile;
constexpr JsonLimits kDictLimits{.bytes = size_t{1} << 30, .values = size_t{64} << 20};
// Comes before the manifest's length and text, and the files in the manifest's order.
constexpr std::string_view kBytesMagic = "MANTA-CHECKPOINT-1\n";

void require_checkpoint(const Checkpoint& checkpoint, const char* what) {
  if (!checkpoint)
    throw Error(ErrorKind::kInvalidArgument, str("Checkpoint::", what, ": there is no checkpoint"));
}

// Compares the checksums in a manifest with those of the written files.
void compare_checksums(const Json& manifest, const CheckpointFolder& written,
                       const std::string& from) {
  for (const CheckpointFile& file : written.files()) {
    for (const Json& expected : manifest.at("files")) {
      if (expected["name"] != file.name) continue;
      if (expected["checksum"] != file.checksum || expected["size"] != file.size)
        throw Error(ErrorKind::kCorrupt, str("checkpoint '", from, "' is damaged: its file '",
                                             file.name, "' is not what the manifest says"));
    }
  }
}

void append_file(const std::string& path, uint64_t size, std::string& to) {
  UniqueFd fd(::open(path.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  if (!fd) throw_errno(str("opening '", path, "'"));
  size_t at = to.size();
  to.resize(at + size);
  while (at < to.size()) {
    ssize_t got = ::read(fd.get(), to.data() + at, to.size() - at);
    if (got < 0 && errno == EINTR) continue;
    if (got < 0) throw_errno(str("reading '", path, "'"));
    if (got == 0)
      throw Error(ErrorKind::kCorrupt, str("'", path, "' is shorter than the manifest says"));
    at += static_cast<size_t>(got);
  }
}

}  // namespace

Checkpoint Checkpoint::in_temporary_folder(
    const std::function<void(const std::string& path)>& fill) {
  auto folder = new_temporary_folder("checkpoint");
  fill(*folder);
  Checkpoint checkpoint = open(*folder);
  checkpoint.folder_ = std::move(folder);
  return checkpoint;
}

Checkpoint Checkpoint::to_directory(const std::string& path) const {
  require_checkpoint(*this, "to_directory");
  std::error_code error;
  if (fs::exists(path, error) && !fs::is_empty(path, error))
    throw Error(ErrorKind::kInvalidArgument,
                str("Checkpoint::to_directory: there is something in '", path,
                    "' already; give a folder that is empty or does not exist"));
  CheckpointFolder folder(path);
  for (const std::string& name : files()) folder.copy(name, file(name));
  compare_checksums(manifest_, folder, uri());
  Json manifest = manifest_;
  train::write_manifest(path, std::move(manifest));
  return open(path);
}

Checkpoint Checkpoint::from_files(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error))
    throw Error(ErrorKind::kNotFound,
                str("Checkpoint::from_files: '", folder, "' is not a folder that exists"));
  std::vector<std::string> names;
  auto it = fs::recursive_directory_iterator(folder, error);
  for (; !error && it != fs::recursive_directory_iterator(); it.increment(error)) {
    auto status = it->symlink_status(error);
    if (error || fs::is_directory(status)) continue;
    std::string name = it->path().lexically_relative(folder);
    if (!fs::is_regular_file(status))
      throw Error(ErrorKind::kInvalidArgument,
                  str("Checkpoint::from_files: '", it->path().string(), "' is ",
                      fs::is_symlink(status) ? "a link" : "neither a file nor a folder",
                      "; a checkpoint has files only: put a copy in its place, or take it away"));
    if (name == kManifestName)
      throw Error(ErrorKind::kInvalidArgument,
                  str("Checkpoint::from_files: '", folder, "' has a ", kManifestName,
                      ", which a checkpoint has itself; if the folder is a checkpoint, take ",
                      "from_directory, otherwise give that file another name"));
    names.push_back(std::move(name));
  }
  if (error)
    throw Error(ErrorKind::kIo, str("reading the folder '", folder, "': ", error.message()));
  if (names.empty())
    throw Error(ErrorKind::kInvalidArgument,
                str("Checkpoint::from_files: there is no file in '", folder, "'"));
  std::sort(names.begin(), names.end());
  return in_temporary_folder([&](const std::string& path) {
    CheckpointFolder copy(path);
    for (const std::string& name : names) {
      train::open_file(folder, name, O_RDONLY);  // refuses a file that has become a link meanwhile
      copy.copy(name, folder + "/" + name);
    }
    train::write_manifest(path, train::manifest_of(copy.files()));
  });
}

Checkpoint Checkpoint::from_dict(const CheckpointDict& dict) {
  if (!dict.values.is_object())
    throw Error(ErrorKind::kInvalidArgument,
                str("Checkpoint::from_dict: the values must be a JSON object; received ",
                    short_text(dict.values)));
  if (!is_utf8(dict.values))
    throw Error(ErrorKind::kInvalidArgument,
                "Checkpoint::from_dict: a text among the values is not UTF-8; put bytes into a "
                "tensor of dtype U8");
  return in_temporary_folder([&](const std::string& path) {
    CheckpointFolder folder(path);
    folder.write(kDictValues, readable_text(dict.values, "Checkpoint::from_dict: the values",
                                            "put numbers into tensors", kDictLimits));
    folder.write(kDictTensors, train::tensor_file(dict.tensors));
    train::write_manifest(path, train::manifest_of(folder.files()));
  });
}

CheckpointDict Checkpoint::to_dict() const {
  require_checkpoint(*this, "to_dict");
  CheckpointDict dict;
  dict.values = train::read_json(file(kDictValues), kDictLimits);
  std::string tensors = file(kDictTensors);
  dict.tensors =
      train::read_tensor_file(train::read_text(tensors, size_t{1} << 40), str("'", tensors, "'"));
  return dict;
}

std::string Checkpoint::to_bytes() const {
  require_checkpoint(*this, "to_bytes");
  std::string manifest = train::read_text(path() + "/" + kManifestName, train::kMostManifestBytes);
  uint64_t length = manifest.size();
  std::string bytes(kBytesMagic);
  bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
  bytes += manifest;
  for (const Json& each : manifest_["files"])
    append_file(file(each["name"]), each["size"].get<uint64_t>(), bytes);
  return bytes;
}

Checkpoint Checkpoint::from_bytes(std::string_view bytes) {
  auto corrupt = [](const std::string& why) {
    throw Error(ErrorKind::kCorrupt, "Checkpoint::from_bytes: " + why);
  };
  if (bytes.substr(0, kBytesMagic.size()) != kBytesMagic)
    corrupt("these are no bytes of Checkpoint::to_bytes: they begin otherwise");
  bytes.remove_prefix(kBytesMagic.size());
  uint64_t length = 0;
  if (bytes.size() < sizeof(length)) corrupt("they end before the manifest");
  std::memcpy(&length, bytes.data(), sizeof(length));
  bytes.remove_prefix(sizeof(length));
  if (length > bytes.size() || length > train::kMostManifestBytes)
    corrupt(str("the manifest has ", length, " bytes, more than there are"));
  std::string text(bytes.substr(0, length));
  bytes.remove_prefix(length);
  return in_temporary_folder([&](const std::string& path) {
    CheckpointFolder folder(path);
    train::replace_file(path + "/" + kManifestName, text);
    Json manifest = train::read_manifest(path);
    uint64_t all = 0;  // cannot overflow: read_manifest has added them up
    for (const Json& each : manifest["files"]) all += each["size"].get<uint64_t>();
    if (all != bytes.size())
      corrupt(str("the files have ", bytes.size(), " bytes, the manifest says ", all));
    for (const Json& each : manifest["files"]) {
      auto size = each["size"].get<size_t>();
      folder.write(each["name"], {{bytes.data(), size}});
      bytes.remove_prefix(size);
    }
    compare_checksums(manifest, folder, "in bytes");
  });
}

void Checkpoint::to_uri(const std::string& uri) const {
  require_checkpoint(*this, "to_uri");
  auto address = remote_address(uri);
  if (!address) {
    to_directory(uri);
    return;
  }
  RemoteAddress manifest = address->child(kManifestName);
  if (look_at(manifest).kind != RemoteEntry::kNothing)
    throw Error(ErrorKind::kInvalidArgument, str("Checkpoint::to_uri: there is a checkpoint at '",
                                                 uri, "' already; give another address"));
  for (const std::string& name : files()) train::upload_file(path(), name, address->child(name));
  train::upload_file(path(), kManifestName, manifest);
}

Checkpoint Checkpoint::from_uri(const std::string& uri) {
  auto address = remote_address(uri);
  if (!address) return from_directory(uri);
  Checkpoint checkpoint = in_temporary_folder(
      [&](const std::string& path) { train::download_checkpoint(*address, path); });
  checkpoint.uri_ = uri;
  return checkpoint;
}

}  // namespace manta
