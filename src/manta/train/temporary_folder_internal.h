#pragma once

#include <cstdlib>
#include <filesystem>
#include <string>

#include "manta/base/error.h"

namespace manta::train {

/// A folder for one test, removed with everything in it.
class TemporaryFolder {
 public:
  TemporaryFolder() {
    path_ = std::filesystem::temp_directory_path() / "train_test_XXXXXX";
    if (!::mkdtemp(path_.data())) throw_errno(str("creating '", path_, "'"));
  }
  ~TemporaryFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TemporaryFolder(const TemporaryFolder&) = delete;

  const std::string& path() const { return path_; }
  std::string operator/(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace manta::train
