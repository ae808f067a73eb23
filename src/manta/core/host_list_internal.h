#pragma once

#include <string>
#include <vector>

namespace manta {

/// The hosts in a Slurm host list: "n[1-3,07],login" is n1, n2, n3, n07, login. Throws
/// Error(kInvalidArgument), which quotes the part it does not understand; also for more than
/// 100,000 hosts.
std::vector<std::string> expand_host_list(const std::string& list);

}  // namespace manta
