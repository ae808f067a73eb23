#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class Array;
class DataType;
}  // namespace arrow

namespace manta::detail {

/// Some rows of a column.
struct ColumnRows {
  std::shared_ptr<arrow::Array> array;
  int64_t offset = 0;  ///< In `array`.
  int64_t rows = 0;
};

/// Consecutive numbers: the content of the lists of some rows.
struct Elements {
  std::shared_ptr<arrow::Array> values;
  int64_t offset = 0;  ///< In `values`.
  int64_t rows = 0;    ///< Each row has as many numbers as the column's shape says.
};

/// A column whose rows all have the same shape.
struct TensorColumn {
  std::string name;
  std::shared_ptr<arrow::DataType> type;  ///< The column's type, with its lists.
  std::vector<Elements> parts;
  int64_t rows = 0;
  std::vector<int64_t> shape;              ///< The shape of a row; empty if it is one number.
  std::function<int64_t(int64_t)> row_of;  ///< The number of one of `rows` in messages.

  int64_t width() const;  ///< Numbers in a row.
};

/// The numbers in lists, large lists and fixed-size lists, at any depth, and binary values as
/// bytes. Extension types count as their storage types, arrow.fixed_shape_tensor in its shape.
/// Copies nothing. Throws Error(kInvalidArgument) naming the column and the row if a list is null,
/// if lists are not of equal length, or if the innermost type is not a type of numbers.
TensorColumn rectangular(const std::string& name, const std::shared_ptr<arrow::DataType>& type,
                         const std::vector<ColumnRows>& parts);

/// A column of lists (or binary values) of any length: row i has the elements [offsets[i],
/// offsets[i + 1]), each of which is a row of `elements`.
struct RaggedColumn {
  TensorColumn elements;
  std::vector<int64_t> offsets;
};
/// Throws as `rectangular` does; lists within the lists must be of equal length.
RaggedColumn ragged(const std::string& name, const std::shared_ptr<arrow::DataType>& type,
                    const std::vector<ColumnRows>& parts);

/// The innermost type, that of the numbers: uint8 for list<binary>. If there are no numbers, throws
/// Error(kInvalidArgument) naming the column and what to use instead.
const arrow::DataType& number_type(const arrow::DataType& type, const std::string& column);

/// Throws Error(kInvalidArgument) that says that this row of the batch has a null.
[[noreturn]] void refuse_null_list(const std::string& column, int64_t row);

}  // namespace manta::detail
