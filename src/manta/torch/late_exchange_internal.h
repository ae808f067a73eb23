#pragma once

#include <torch/types.h>

#include <vector>

#include "manta/torch/replicas_internal.h"

namespace manta::train::detail {

/// Collective. Averages the gradients of the parameters, on any device, when backward is over. It
/// is for a backward in which c10d's Reducer takes no part, because the Reducer handles only one
/// backward for each forward. Gradients that an earlier backward has averaged are the same on all
/// workers, and stay as they are.
///
/// A parameter without a gradient on any worker stays without one; if only some workers have a
/// gradient, those of the others count as zero. Takes up to 64 MiB besides the gradients, or the
/// size of the largest gradient. Throws Error(kInvalidArgument) for a sparse gradient.
void average_gradients(const Replicas& replicas, const std::vector<torch::Tensor>& parameters);

}  // namespace manta::train::detail
