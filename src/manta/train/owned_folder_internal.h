#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/train/config.h"

namespace manta::train {

/// ~/manta_results. Throws Error(kInvalidArgument) if HOME is not set.
std::string results_folder();
/// Throws Error(kInvalidArgument) unless the name can be that of a folder, or is empty.
void check_run_name(const std::string& name);
/// "TorchTrainer_2026-11-16_05-42-38"
std::string name_by_time(const std::string& kind);

/// A folder of results that only this process writes to: the kernel releases the lock when the
/// process ends, in whatever way. Only the folder's owner and root may use it: another user's
/// folder could change while it is read.
struct OwnedFolder {
  std::string path;  ///< Absolute.
  UniqueFd lock;

  /// Makes <storage_path>/<name>; the default name is made from `kind` and the time. Throws
  /// Error(kInvalidArgument) if the folder has a file `taken` already or belongs to another user,
  /// or if the name cannot be that of a folder; Error(kIo) naming the process if another program
  /// uses it.
  static OwnedFolder make(const RunConfig& config, const std::string& kind,
                          const std::string& taken);
  /// Opens a folder that has such a file. Throws Error(kNotFound) if it has none, and as `make`.
  static OwnedFolder open(const std::string& path, const std::string& taken);
};

}  // namespace manta::train
