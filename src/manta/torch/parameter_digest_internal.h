#pragma once

#include <torch/types.h>

#include <cstdint>
#include <vector>

#include "manta/torch/safetensors.h"

namespace manta::detail {

/// A digest of a model's parameters: the same for equal parameters, different for parameters that
/// training has changed differently. It reads names, shapes, and about 1 MiB of values, spread over
/// all of the parameters, so it takes the same time for a large model as for a small one. A
/// difference in few values of a large model may be missed.
uint64_t parameter_digest(const std::vector<NamedTensor>& parameters);

}  // namespace manta::detail
