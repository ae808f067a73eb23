#pragma once

#include <string>
#include <string_view>

namespace manta::xgboost {

/// What is wrong with bytes that should be one UBJSON object, e.g. where they break off; empty if
/// nothing is. The library reads beyond the end of a model that was cut off, so models are checked
/// with this before it sees them.
std::string ubjson_damage(std::string_view bytes);

}  // namespace manta::xgboost
