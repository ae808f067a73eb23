#pragma once

#include <torch/types.h>

#include <string>

#include "manta/torch/tensor_elements_internal.h"
#include "manta/torch/torch_batches.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::detail {

/// "torch::kFloat32", as a program writes it.
std::string dtype_name(torch::Dtype dtype);

/// The default type of a column as a tensor: see TorchDtypes. Throws Error(kInvalidArgument) naming
/// the column if there is none.
torch::Dtype own_dtype(const arrow::DataType& type, const std::string& column);

/// The numbers of a column as a tensor of shape [rows, ...]. Throws Error(kInvalidArgument) naming
/// column, row and value if one is not exact and must be, or if tensors of that type are not known.
torch::Tensor to_tensor(const TensorColumn& column, torch::Dtype dtype, Inexact inexact);

/// The same, into the columns of a matrix from `place` on.
void copy_into(torch::Tensor& matrix, int64_t place, const TensorColumn& column, Inexact inexact);

/// Rows filled up to one length: see TorchPadding.
torch::Tensor to_padded_tensor(const RaggedColumn& column, const TorchPadding& padding,
                               torch::Dtype dtype, Inexact inexact);

}  // namespace manta::detail
