#pragma once

#include <arrow/api.h>

#include <memory>

/// Columns of fixed_size_list, whose rows are vectors of one length.
namespace manta::preprocess {

/// A buffer of zeros.
std::shared_ptr<arrow::Buffer> zeros(int64_t bytes);

/// The offsets of lists of `width` elements. Throws Error(kInvalidArgument) if they have more than
/// 2^31 - 1 in all.
std::shared_ptr<arrow::Buffer> list_offsets(int64_t width, int64_t rows);

/// A column with `width` values in each row.
template <class ArrowType>
std::shared_ptr<arrow::Array> vectors(std::shared_ptr<arrow::Buffer> values, int64_t width,
                                      int64_t rows) {
  auto type = arrow::TypeTraits<ArrowType>::type_singleton();
  auto array =
      std::make_shared<arrow::NumericArray<ArrowType>>(type, rows * width, std::move(values));
  return std::make_shared<arrow::FixedSizeListArray>(
      arrow::fixed_size_list(type, static_cast<int32_t>(width)), rows, std::move(array));
}

/// The same as lists, whose type does not say how long they are.
template <class ArrowType>
std::shared_ptr<arrow::Array> equal_lists(std::shared_ptr<arrow::Buffer> values, int64_t width,
                                          int64_t rows) {
  auto type = arrow::TypeTraits<ArrowType>::type_singleton();
  auto array =
      std::make_shared<arrow::NumericArray<ArrowType>>(type, rows * width, std::move(values));
  return std::make_shared<arrow::ListArray>(arrow::list(type), rows, list_offsets(width, rows),
                                            std::move(array));
}

}  // namespace manta::preprocess
