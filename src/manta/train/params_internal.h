#pragma once

#include "manta/base/json_input_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// How much of params.json is read.
inline constexpr size_t kMostParamsBytes = size_t{64} << 20;

/// The content of params.json: everything about a run but the loop. A data set whose functions
/// cannot be stored (they are not `named`, or their arguments are not Json) is kept as text only.
Json params_of(const Training& training);

/// The text of params.json. Throws Error(kInvalidArgument) if it is larger or more deeply nested
/// than read_params takes.
std::string params_text(const Json& params);

/// Everything but the callbacks; only their number is kept.
Json run_config_to_json(const RunConfig& run);
/// Throws an error of the document's kind.
RunConfig run_config_from_json(const JsonFields& json);

/// Resources as files store them.
Json resources_to_json(const Resources& resources);
/// Throws an error of the document's kind.
Resources resources_from_json(const JsonFields& json);

}  // namespace manta::train
