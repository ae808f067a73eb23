#pragma once

#include <torch/types.h>

#include <vector>

#include "manta/torch/replicas_internal.h"

namespace manta::train::detail {

/// Collective. Averages the gradients that the parameters have, on any device, when backward is
/// over: for a backward that c10d's Reducer does not take part in, because it knows one for each
/// forward. What an earlier backward has averaged is the same on all workers, and stays as it is.
///
/// A parameter that no worker has a gradient of is left without one; where only some have, the
/// others count as zero. Takes up to 64 MiB beside the gradients, or the size of the largest one.
/// Throws Error(kInvalidArgument) for a sparse gradient.
void average_gradients(const Replicas& replicas, const std::vector<torch::Tensor>& parameters);

}  // namespace manta::train::detail
