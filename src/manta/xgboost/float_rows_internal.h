#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class Array;
struct ArrayData;
class DataType;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::xgboost {

/// A column of features: numbers, or vectors (fixed_size_list) of them, as preprocessors make them.
struct FeatureColumn {
  std::string name;
  int64_t width = 0;  ///< The width of a vector; 0: one number a row.

  bool operator==(const FeatureColumn&) const = default;
};
/// The column of a schema, which must be there.
FeatureColumn feature_column(const arrow::Schema& schema, const std::string& name);
/// Their names in a model: columns by their names, the elements of vector "v" as "v_0", "v_1", ...
/// Throws Error(kInvalidArgument) if two have the same name.
std::vector<std::string> feature_names(const std::vector<FeatureColumn>& columns);

/// Whether the library can compute with a column: numbers of up to 64 bits, bool, and columns of
/// nulls only, and vectors of them.
bool is_number_column(const arrow::DataType& type);
/// Throws Error(kInvalidArgument) naming the column, its type and what to change, if one of these
/// columns is not such a column. `where`: "data set 'train'".
void require_number_columns(const arrow::Schema& schema, const std::vector<std::string>& names,
                            const std::string& where);

/// Rows of features as the library computes with them: float32, one row after the other, missing
/// values as NaN. Grows without copying its rows.
class FloatRows {
 public:
  /// `columns` must outlive it. `where` is for errors. `warns`: warns once for each column of
  /// integers in which one is rounded, since two identifiers may then become equal.
  FloatRows(const std::vector<FeatureColumn>& columns, std::string where, bool warns = false);

  /// Adds the rows from `offset` on. `first_row` is the number of the first, for errors. Throws
  /// Error(kInvalidArgument) for a column of another type, and for an infinite value or one beyond
  /// float32, which the library refuses, naming column and row; Error(kNotFound) for a missing
  /// column.
  void append(const arrow::RecordBatch& batch, int64_t offset, int64_t rows, int64_t first_row);

  const float* data() const { return data_.get(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return width_; }  ///< Values of a row.

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  void reserve(int64_t rows);
  void look_up(const arrow::Schema& schema);
  void warn_of_rounded(size_t column, const arrow::Array& values, int64_t offset, int64_t rows,
                       int64_t first_row);

  const std::vector<FeatureColumn>& columns_;
  const std::string where_;
  std::vector<bool> to_warn_of_;  // by column
  int64_t width_ = 0;
  std::shared_ptr<arrow::Schema> schema_;  // of the batch before
  std::vector<int> places_;                // of the columns in it
  std::unique_ptr<float, Free> data_;
  int64_t rows_ = 0;
  int64_t capacity_ = 0;  // in rows
};

/// Numbers of one column as float32, NaN where it is null, to every `stride`th place of `out`.
void write_floats(const arrow::ArrayData& column, int64_t offset, int64_t rows, float* out,
                  int64_t stride);

}  // namespace manta::xgboost
