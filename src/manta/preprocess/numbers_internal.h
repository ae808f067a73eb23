#pragma once

#include <arrow/array/array_primitive.h>
#include <arrow/buffer.h>
#include <arrow/type_fwd.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/dataset.h"

namespace manta::preprocess {

/// A column's values as float64, with its nulls: integers and decimals rounded, true as 1. Costs
/// nothing for a column of float64. Throws Error(kInvalidArgument), which begins with `who` and
/// names the column, if its type has no numbers.
std::shared_ptr<arrow::DoubleArray> numbers_of(const std::shared_ptr<arrow::Array>& column,
                                               const std::string& name, const std::string& who);

/// The bitmap of rows that are not null, from bit 0; nullptr if no row is null.
std::shared_ptr<arrow::Buffer> validity_of(const arrow::Array& column);

/// Throws Error(kInvalidArgument), as numbers_of does, if the type has no numbers.
void require_numbers(const arrow::DataType& type, const std::string& name, const std::string& who);
/// The same for columns of a schema, all of which must be there.
void require_numbers(const arrow::Schema& schema, const std::vector<std::string>& names,
                     const std::string& who);

/// A float64 array of the same rows and nulls, with `make(x)` for each value x.
template <class Make>
std::shared_ptr<arrow::DoubleArray> map_numbers(const arrow::DoubleArray& column, Make make);

/// The places of columns in a batch. Throws Error(kNotFound) that names all missing columns.
std::vector<int> places_of(const std::vector<std::string>& columns, const arrow::Schema& schema,
                           const std::string& who);

/// The error for a column that has only nulls and NaN.
[[noreturn]] void throw_nothing_to_learn(const std::string& column, const std::string& who);

// ---- Implementation.

std::shared_ptr<arrow::Buffer> new_buffer(int64_t bytes);

template <class Make>
std::shared_ptr<arrow::DoubleArray> map_numbers(const arrow::DoubleArray& column, Make make) {
  int64_t rows = column.length();
  auto buffer = new_buffer(rows * 8);
  const double* from = column.raw_values();
  auto* to = reinterpret_cast<double*>(buffer->mutable_data());
  for (int64_t i = 0; i < rows; ++i) to[i] = make(from[i]);
  return std::make_shared<arrow::DoubleArray>(rows, std::move(buffer), validity_of(column),
                                              column.null_count());
}

}  // namespace manta::preprocess
