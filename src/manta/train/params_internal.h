#pragma once

#include "manta/train/training_internal.h"

namespace manta::train {

/// What params.json holds of a run: everything but the loop. A data set whose functions cannot be
/// stored (they are not `named`, or their arguments are not Json) is kept as text only.
Json params_of(const Training& training);

/// The text of params.json. Throws Error(kInvalidArgument) if it is larger or more deeply nested
/// than read_params takes.
std::string params_text(const Json& params);

}  // namespace manta::train
