#pragma once

#include <manta/base/error.h>
#include <stdlib.h>

#include <filesystem>
#include <string>

/// A folder for the runs of one measurement, gone when it goes.
class RunFolder {
 public:
  RunFolder() {
    std::string path = (std::filesystem::temp_directory_path() / "manta-bench-XXXXXX").string();
    if (!::mkdtemp(path.data())) {
      throw manta::Error(manta::ErrorKind::kIo, manta::str("cannot make the folder '", path, "'"));
    }
    path_ = path;
  }
  RunFolder(const RunFolder&) = delete;
  RunFolder& operator=(const RunFolder&) = delete;
  ~RunFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};
