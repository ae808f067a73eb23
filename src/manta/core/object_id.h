#pragma once

#include <cstdint>

namespace manta::internal {

/// Names an object, and the task or actor that makes it, within one run. The upper 24 bits are the
/// index of the process that chose it, the lower 40 a counter of that process. 0 names nothing.
using ObjectId = uint64_t;

inline constexpr int kObjectCounterBits = 40;

}  // namespace manta::internal
