#pragma once

#include <string>
#include <string_view>

namespace manta::xgboost {

/// What is wrong with bytes that should be one UBJSON object, e.g. where they break off; empty if
/// they are right. The library reads beyond the end of a model that was cut off, so this checks
/// models before the library gets them.
std::string ubjson_damage(std::string_view bytes);

}  // namespace manta::xgboost
