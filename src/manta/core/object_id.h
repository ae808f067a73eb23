#pragma once

#include <cstdint>

namespace manta {

/// Names an object, and the task or actor that makes it, within one run: the index of the process
/// that chose it in the upper 24 bits, a counter of that process in the lower 40. 0 names nothing.
using ObjectId = uint64_t;

inline constexpr int kObjectCounterBits = 40;

}  // namespace manta
