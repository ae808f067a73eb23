#pragma once

#include <memory>
#include <string>

#include "manta/io/remote_files_internal.h"

namespace arrow::fs {
class FileSystem;
}

namespace manta {

/// A file system of Arrow's, with the path that an address has in it.
struct RemoteStore {
  std::shared_ptr<arrow::fs::FileSystem> files;
  std::string root;  ///< "bucket"
  bool is_s3 = false;

  std::string path_of(const RemoteAddress& address) const;
  /// The address's path for a path in the store.
  std::string relative(const std::string& path) const;
};

/// Made once in a process. Throws Error(kInvalidArgument) for an address of no known kind.
RemoteStore store_of(const RemoteAddress& address);

}  // namespace manta
