#pragma once

#include <algorithm>
#include <thread>

namespace manta::data {

/// As many threads read at a time, unless somebody asks for another number.
inline int all_processors() {
  return static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
}

}  // namespace manta::data
