#include "manta/train/checkpoint.h"

#include <sys/stat.h>

#include <cerrno>
#include <filesystem>

#include "manta/base/error.h"
#include "manta/io/checksum.h"
#include "manta/train/file_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kCorrupt, str("checkpoint '", path, "' is damaged: ", why));
}

Json read_manifest(const std::string& path) {
  std::string text;
  try {
    text = train::read_text(path + "/" + kManifest);
  } catch (const Error& error) {
    if (error.kind() != ErrorKind::kNotFound) throw;
    throw Error(ErrorKind::kNotFound,
                str("'", path, "' is not a checkpoint: it has no ", kManifest,
                    " (expected a folder such as <run folder>/checkpoint_000003)"));
  }
  Json manifest = Json::parse(text, nullptr, false);
  if (!manifest.is_object()) damaged(path, str(kManifest, " is not a JSON object"));
  int version = manifest.contains("version") && manifest["version"].is_number_integer()
                    ? manifest["version"].get<int>()
                    : 0;
  if (version != 1)
    damaged(path, str(kManifest, " has version ", version, "; this program reads version 1"));
  if (!manifest.contains("files") || !manifest["files"].is_array())
    damaged(path, str(kManifest, " has no list of files"));
  for (const Json& file : manifest["files"]) {
    try {
      check_file_name(file.at("name").get<std::string>());
      file.at("size").get<uint64_t>();
      file.at("checksum").get<std::string>();
    } catch (const std::exception& error) {
      damaged(path, str(kManifest, " has an entry ", file.dump(), ": ", error.what()));
    }
  }
  for (const char* key : {"report", "attempt", "world_size"}) {
    if (!manifest.contains(key) || !manifest[key].is_number_integer())
      damaged(path, str(kManifest, " has no number '", key, "'"));
  }
  return manifest;
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  std::string absolute = fs::absolute(path).lexically_normal();
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  checkpoint.manifest_ = read_manifest(absolute);
  checkpoint.path_ = absolute;
  for (const Json& file : checkpoint.manifest_["files"]) {
    std::string name = file["name"];
    struct stat info {};
    if (::stat((absolute + "/" + name).c_str(), &info) != 0)
      damaged(absolute, str("its file '", name, "': ", errno_text(errno)));
    if (!S_ISREG(info.st_mode)) damaged(absolute, str("'", name, "' is not a file"));
    auto size = static_cast<uint64_t>(info.st_size);
    if (size != file["size"].get<uint64_t>())
      damaged(absolute, str("its file '", name, "' has ", size, " bytes instead of ",
                            file["size"].get<uint64_t>()));
  }
  return checkpoint;
}

Checkpoint Checkpoint::from_directory(const std::string& path) {
  Checkpoint checkpoint = open(path);
  for (const Json& file : checkpoint.manifest_["files"]) {
    std::string name = file["name"];
    std::string expected = file["checksum"];
    FileDigest digest = digest_file(checkpoint.path_ + "/" + name);
    if (digest.checksum != expected)
      damaged(checkpoint.path_, str("its file '", name, "' has the checksum ", digest.checksum,
                                    " instead of ", expected));
  }
  return checkpoint;
}

std::vector<std::string> Checkpoint::files() const {
  std::vector<std::string> names;
  if (!*this) return names;
  for (const Json& file : manifest_["files"]) names.push_back(file["name"]);
  return names;
}

std::string Checkpoint::file(const std::string& name) const {
  if (!*this)
    throw Error(ErrorKind::kNotFound,
                str("there is no file '", name, "', because there is no checkpoint"));
  std::string known;
  for (const std::string& one : files()) {
    if (one == name) return path_ + "/" + name;
    known += str(known.empty() ? "'" : ", '", one, "'");
  }
  throw Error(ErrorKind::kNotFound, str("checkpoint '", path_, "' has no file '", name,
                                        "'; it has ", known.empty() ? "none" : known));
}

Json Checkpoint::metrics() const {
  return manifest_.is_object() ? manifest_.value("metrics", Json()) : Json();
}

}  // namespace manta
