#pragma once

#include <torch/types.h>

#include <optional>
#include <string>

#include "manta/torch/torch_batches.h"

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::detail {

/// "torch::kFloat32", as a program writes it.
std::string dtype_name(torch::Dtype dtype);

/// The type that a column has as a tensor unless another one is wanted: see TorchDtypes. Throws
/// Error(kInvalidArgument) naming the column if there is none.
torch::Dtype own_dtype(const arrow::DataType& type, const std::string& column);

/// How many elements a row has, if the column is of vectors (fixed_size_list).
std::optional<int64_t> vector_width(const arrow::DataType& type);

/// Some rows of a column, and where they go. The elements of a vector go side by side.
struct ColumnCopy {
  const std::string& name;
  const arrow::Array& array;
  int64_t offset = 0;       ///< In `array`.
  int64_t rows = 0;         ///< How many.
  int64_t first_row = 0;    ///< What messages call the first of them: its row in the batch.
  void* to = nullptr;       ///< The first value.
  int64_t stride = 1;       ///< Every how manieth place.
  torch::Dtype dtype = {};  /// What lies there.
  Inexact inexact = Inexact::kRefused;
  int64_t row_width = 1;  ///< So many of `rows` are a row of the batch, for messages.
};

/// Throws Error(kInvalidArgument) naming column, row and value if it is not exact and must be, or
/// if columns of this type, or tensors of that one, are not known.
void copy_column(const ColumnCopy& copy);

}  // namespace manta::detail
