#pragma once

#include <string>
#include <vector>

namespace manta {

/// The hosts that a list of Slurm's names: "n[1-3,07],login" is n1, n2, n3, n07, login. Throws
/// Error(kInvalidArgument) that quotes what it does not understand, and for more than 100,000
/// hosts.
std::vector<std::string> expand_host_list(const std::string& list);

}  // namespace manta
