#pragma once

#include <ostream>
#include <string>

namespace manta::cli {

struct StatusOptions {
  std::string folder = {};  ///< Default: the system's temporary folder.
  double timeout_seconds = 5;
  bool processes = false;
  bool json = false;
};

/// Shows the runs of this user on this machine. It asks each driver, which answers and changes
/// nothing. It returns the program's exit code: 1 if a living driver did not answer in time,
/// otherwise 0. Throws std::exception if it cannot look for runs.
int show_status(const StatusOptions& options, std::ostream& out);

}  // namespace manta::cli
