#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"

namespace manta {

/// For tests and benchmarks: a temporary folder; the destructor removes it with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = std::filesystem::temp_directory_path() / "temporary-XXXXXX";
    if (!::mkdtemp(path_.data())) throw_errno(str("making the folder '", path_, "'"));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;
  TemporaryFolder& operator=(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }
  /// The names of its entries.
  std::vector<std::string> entries() const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(path_)) {
      names.push_back(entry.path().filename());
    }
    return names;
  }

 private:
  std::string path_;
};

}  // namespace manta
