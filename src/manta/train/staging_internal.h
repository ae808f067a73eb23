#pragma once

#include <cstdint>
#include <string>

#include "manta/base/error_internal.h"
#include "manta/train/file_internal.h"

namespace manta::train {

/// The name of the staging folder in a run folder.
inline constexpr const char* kStaging = ".staging";

/// The folder in which one rank, or the driver (a negative rank), writes its files of one report,
/// until they are committed.
inline std::string staging_folder(const std::string& run_folder, int attempt, int64_t index,
                                  int rank) {
  return str(run_folder, "/", kStaging, "/attempt-", attempt, "/report-", index,
             rank < 0 ? std::string("/driver") : str("/rank-", rank));
}

/// Makes it, and returns it. A run folder that was removed is not made again: throws Error(kIo).
inline std::string make_staging_folder(const std::string& run_folder, int attempt, int64_t index,
                                       int rank) {
  std::string folder = staging_folder(run_folder, attempt, index, rank);
  make_folders_in(run_folder, folder.substr(run_folder.size() + 1) + "/");
  return folder;
}

}  // namespace manta::train
