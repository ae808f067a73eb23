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
    kSilent,  ///< Its process lives, but has not answered in time.
    kNotYet,  ///< Its process lives, but cannot be asked yet, or any more.
  };
  std::string folder;
  long pid = 0;
  State state = kSilent;
  nlohmann::json status;  ///< Its answer, if it has answered.
};

/// Runs of this user below the folder, in the order of their names. Asks each for at most
/// `timeout`. Throws std::runtime_error if the folder cannot be read.
std::vector<FoundRun> find_runs(const std::string& folder, std::chrono::milliseconds timeout);

}  // namespace manta::cli
