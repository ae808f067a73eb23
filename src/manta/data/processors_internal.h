#pragma once

#include <string>

namespace manta::data {

/// The number of processors that this process may use, by its affinity and the quotas of its
/// cgroup; at least one. It is the default number of threads that read. `root`: "/", except in
/// tests (see `detect_resources`).
int all_processors(const std::string& root = "/");

}  // namespace manta::data
