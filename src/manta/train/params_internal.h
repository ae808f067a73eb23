#pragma once

#include "manta/train/training_internal.h"

namespace manta::train {

/// What params.json holds of a run: everything but the loop. A data set whose plan contains
/// functions is kept as text only: functions of a program cannot be stored.
Json params_of(const Training& training);

}  // namespace manta::train
