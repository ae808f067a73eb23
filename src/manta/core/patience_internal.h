#pragma once

#include <chrono>

namespace manta {

/// For tests: how long they wait for an event that must come. Far longer than it ever takes.
inline constexpr std::chrono::seconds kPatience{30};

}  // namespace manta
