#pragma once

#include <chrono>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace manta::cli {

/// A session folder of a driver or of a node's agent.
struct FoundRun {
  enum State {
    kAnswered,
    kEnded,   ///< Its process is gone: the folder is left over.
    kSilent,  ///< It lives, and has not answered in time.
    kNotYet,  ///< It lives, and cannot be asked yet, or no more.
  };
  std::string folder;
  long pid = 0;
  State state = kSilent;
  nlohmann::json status;  ///< What it said, if it has answered.
};

/// Runs of this user below the folder, in the order of their names. Asks each for at most
/// `timeout`. Throws std::runtime_error if the folder cannot be read.
std::vector<FoundRun> find_runs(const std::string& folder, std::chrono::milliseconds timeout);

}  // namespace manta::cli
