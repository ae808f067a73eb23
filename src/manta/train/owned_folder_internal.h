#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/config.h"

namespace manta::train {

/// ~/manta_results. Throws Error(kInvalidArgument) if HOME is not set.
std::string results_folder();
/// Throws Error(kInvalidArgument) unless it is the name of a folder, or empty.
void check_run_name(const std::string& name);
/// "TorchTrainer_2026-11-16_05-42-38"
std::string name_by_time(const std::string& kind);

/// A folder of results that this process alone writes to: the kernel releases the lock when it
/// ends, however it ends. Only the folder's owner and root may use it: a folder of somebody else
/// could change while it is read.
struct OwnedFolder {
  std::string path;  ///< Absolute.
  UniqueFd lock;

  /// Makes <storage_path>/<name>; without a name, one of `kind` and the time. Throws
  /// Error(kInvalidArgument) if it has a file `taken` already, belongs to another user or the name
  /// is not one of a folder; Error(kIo) naming the process if another program uses it.
  static OwnedFolder make(const RunConfig& config, const std::string& kind,
                          const std::string& taken);
  /// One that has such a file. Throws Error(kNotFound) if it has none; as `make`.
  static OwnedFolder open(const std::string& path, const std::string& taken);
};

}  // namespace manta::train
