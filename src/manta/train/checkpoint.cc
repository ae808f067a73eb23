#include "manta/train/checkpoint.h"

#include <fcntl.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/io/checksum_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/manifest_internal.h"
#include "manta/train/remote_checkpoint_internal.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void damaged(const std::string& path, const std::string& why) {
  throw Error(ErrorKind::kCorrupt, str("checkpoint '", path, "' is damaged: ", why));
}

// A file that the manifest names, which must be there and as long as it says.
UniqueFd open_member(const std::string& path, const Json& file) {
  std::string name = file["name"];
  auto expected = file["size"].get<uint64_t>();
  UniqueFd fd;
  uint64_t size = 0;
  try {
    fd = train::open_file(path, name, O_RDONLY);
    size = train::check_regular(fd.get(), path + "/" + name);
  } catch (const Error& error) {
    if (!train::is_damage(error)) throw;
    damaged(path, error.what());
  }
  if (size != expected)
    damaged(path, str("its file '", name, "' has ", size, " bytes instead of ", expected));
  return fd;
}

}  // namespace

Checkpoint Checkpoint::open(const std::string& path) {
  Checkpoint checkpoint;
  if (path.empty())
    throw Error(ErrorKind::kNotFound, "'' is not a checkpoint: give the path of a folder");
  std::string absolute = fs::absolute(path).lexically_normal();
  while (absolute.size() > 1 && absolute.back() == '/') absolute.pop_back();
  checkpoint.manifest_ = train::read_manifest(absolute);
  checkpoint.path_ = absolute;
  for (const Json& file : checkpoint.manifest_["files"]) open_member(absolute, file);
  return checkpoint;
}

Checkpoint Checkpoint::from_directory(const std::string& path) {
  Checkpoint checkpoint = open(path);
  for (const Json& file : checkpoint.manifest_["files"]) {
    std::string name = file["name"];
    std::string expected = file["checksum"];
    UniqueFd fd = open_member(checkpoint.path_, file);
    FileDigest digest = digest_file(fd.get(), checkpoint.path_ + "/" + name);
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
    if (one == name) return path() + "/" + name;
    known += str(known.empty() ? "'" : ", '", one, "'");
  }
  throw Error(ErrorKind::kNotFound, str("checkpoint '", uri(), "' has no file '", name,
                                        "'; it has ", known.empty() ? "none" : known));
}

AnyPreprocessor Checkpoint::get_preprocessor() const {
  auto names = files();
  if (std::find(names.begin(), names.end(), train::kPreprocessorFile) == names.end()) return {};
  std::string path = file(train::kPreprocessorFile);
  return AnyPreprocessor::from_json(train::read_json(path, train::kPreprocessorLimits),
                                    str("'", path, "'"));
}

const std::string& Checkpoint::path() const { return stored_ ? stored_->fetch(manifest_) : path_; }

Json Checkpoint::metrics() const { return *this ? manifest_["metrics"] : Json(); }

}  // namespace manta
