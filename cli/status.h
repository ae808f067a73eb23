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

/// Shows the runs of this user on this machine. It asks each driver, which tells and changes
/// nothing. What it returns is the program's exit code: 1 if one that lives did not answer in time,
/// else 0. Throws std::exception if it cannot look for runs.
int show_status(const StatusOptions& options, std::ostream& out);

}  // namespace manta::cli
