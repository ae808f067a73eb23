#pragma once

#include <ATen/core/Tensor.h>

#include "manta/train/checkpoint.h"

namespace manta {

/// A copy of the tensor as a CheckpointDict holds it. Throws Error(kInvalidArgument) for a type
/// that TensorBytes does not have.
TensorBytes tensor_bytes(const at::Tensor& tensor);
/// The reverse: a tensor on the CPU. Throws Error(kInvalidArgument) if the bytes do not fit type
/// and shape.
at::Tensor to_tensor(const TensorBytes& bytes);

}  // namespace manta
