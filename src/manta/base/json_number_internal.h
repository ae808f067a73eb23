#pragma once

#include <optional>

#include "manta/base/json.h"

namespace manta {

/// The number, or "inf", "-inf" or "nan": JSON has no numbers for these, and would hold null.
Json encode_number(double value);
/// The number that `encode_number` encoded; nothing if `json` is something else.
std::optional<double> decode_number(const Json& json);

}  // namespace manta
