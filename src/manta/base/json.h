#pragma once

#include <nlohmann/json.hpp>

namespace manta {

/// Configurations, metrics, plans and manifests: whatever a user reads, or a file keeps.
using Json = nlohmann::json;

}  // namespace manta
