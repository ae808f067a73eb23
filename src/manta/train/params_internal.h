#pragma once

#include "manta/train/training_internal.h"

namespace manta::train {

/// What params.json holds of a run: everything but the loop. A data set whose functions cannot be
/// stored (they are not `named`, or their arguments are not Json) is kept as text only.
Json params_of(const Training& training);

}  // namespace manta::train
