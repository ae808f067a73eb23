#pragma once

#include <cstdint>
#include <string>

#include "manta/base/json.h"

/// What a training run costs beside the training: `fit` of an empty loop, going on after a `kill`,
/// a `checkpoint` of 1 GiB. `start_ns`: CLOCK_MONOTONIC when this process was spawned.
manta::Json run_figures(const std::string& what, int64_t start_ns);
