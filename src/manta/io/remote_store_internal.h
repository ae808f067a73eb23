#pragma once

#include <memory>
#include <string>

#include "manta/io/remote_files_internal.h"

namespace arrow::fs {
class FileSystem;
}

namespace manta {

/// A file system of Arrow's, with what an address's path is called in it.
struct RemoteStore {
  std::shared_ptr<arrow::fs::FileSystem> files;
  std::string root;  ///< "bucket"
  bool is_s3 = false;

  std::string path_of(const RemoteAddress& address) const;
  /// Of a path in the store: that of the address.
  std::string relative(const std::string& path) const;
};

/// Made once in a process. Throws Error(kInvalidArgument) for an address that nobody understands.
RemoteStore store_of(const RemoteAddress& address);

}  // namespace manta
