#pragma once

#include <cstdint>
#include <string>

#include "manta/base/error_internal.h"

namespace manta::train {

/// The folder of a run folder in which that is.
inline constexpr const char* kStaging = ".staging";

/// Where one rank, or the driver (a negative rank), writes its files of one report, until they are
/// committed.
inline std::string staging_folder(const std::string& run_folder, int attempt, int64_t index,
                                  int rank) {
  return str(run_folder, "/", kStaging, "/attempt-", attempt, "/report-", index,
             rank < 0 ? std::string("/driver") : str("/rank-", rank));
}

}  // namespace manta::train
