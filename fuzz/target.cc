#include "target.h"

#include <manta/base/error_internal.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace manta::fuzz {
namespace {

class ScratchFolder {
 public:
  ScratchFolder() {
    bool in_memory = std::filesystem::is_directory("/dev/shm");
    auto parent = in_memory ? "/dev/shm" : std::filesystem::temp_directory_path();
    path_ = parent / "manta-fuzz-XXXXXX";
    if (!::mkdtemp(path_.data())) throw_errno(str("making the folder '", path_, "'"));
  }
  ~ScratchFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

void try_input(const Target& target, std::string_view input) {
  try {
    target.run(input);
  } catch (const Error&) {  // how a reader refuses input
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s let a %s escape: %s\n", target.name,
                 demangle(typeid(error).name()).c_str(), error.what());
    std::abort();
  }
}

const std::string& scratch_folder() {
  static const ScratchFolder folder;
  return folder.path();
}

std::string scratch_file(const std::string& name, std::string_view content) {
  std::string path = scratch_folder() + "/" + name;
  std::ofstream out(path, std::ios::binary | std::ios::trunc);
  out.write(content.data(), static_cast<std::streamsize>(content.size()));
  if (!out.flush()) throw_errno(str("writing '", path, "'"));
  return path;
}

}  // namespace manta::fuzz
