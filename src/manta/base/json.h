#pragma once

#include <nlohmann/json.hpp>

namespace manta {

/// Configurations, metrics, plans and manifests: everything that users read or files keep.
using Json = nlohmann::json;

}  // namespace manta
