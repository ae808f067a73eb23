#pragma once

#include <string>

namespace manta::data {

/// As many threads read at a time, unless somebody asks for another number: the processors that
/// this process may use, by its affinity and the quotas of its cgroup; at least one. `root`: "/",
/// except in tests (see `detect_resources`).
int all_processors(const std::string& root = "/");

}  // namespace manta::data
