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

/// Numbers that lie one after the other: what is in the lists of some rows.
struct Elements {
  std::shared_ptr<arrow::Array> values;
  int64_t offset = 0;  ///< In `values`.
  int64_t rows = 0;    ///< Each of so many numbers as the column's shape says.
};

/// A column whose rows all have the same shape.
struct TensorColumn {
  std::string name;
  std::shared_ptr<arrow::DataType> type;  ///< Of the column, with its lists.
  std::vector<Elements> parts;
  int64_t rows = 0;
  std::vector<int64_t> shape;              ///< Of a row; none if it is one number.
  std::function<int64_t(int64_t)> row_of;  ///< What messages call one of `rows`.

  int64_t width() const;  ///< Numbers in a row.
};

/// The numbers in lists, large lists, fixed-size lists, at any depth, and binary values, as bytes;
/// of extension types those that they are stored as, of arrow.fixed_shape_tensor in its shape.
/// Copies nothing. Throws Error(kInvalidArgument) naming the column and the row if a list is null,
/// if lists are not of equal length, or if the column is of another type than numbers in the end.
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

/// The type of the numbers in the end: uint8 for list<binary>. Throws Error(kInvalidArgument)
/// naming the column and what to use instead if there are none.
const arrow::DataType& number_type(const arrow::DataType& type, const std::string& column);

/// Throws Error(kInvalidArgument): there is a null in that row of the batch.
[[noreturn]] void refuse_null_list(const std::string& column, int64_t row);

}  // namespace manta::detail
