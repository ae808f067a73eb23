#pragma once

#include <cstdint>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
struct ArrayData;
class DataType;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::xgboost {

/// Whether the library can compute with a column: numbers of up to 64 bits, bool, and columns of
/// nulls only.
bool is_number_column(const arrow::DataType& type);
/// Throws Error(kInvalidArgument) naming the column, its type and what to change, if one of these
/// columns is not. `where`: "data set 'train'".
void require_number_columns(const arrow::Schema& schema, const std::vector<std::string>& names,
                            const std::string& where);

/// Rows of features as the library computes with them: float32, one row after the other, missing
/// values as NaN. Grows without copying what is there.
class FloatRows {
 public:
  /// `columns` must outlive it. `where` is for errors.
  FloatRows(const std::vector<std::string>& columns, std::string where);

  /// Adds the rows from `offset` on. `first_row` is the number of the first, for errors. Throws
  /// Error(kInvalidArgument) for a column of another type, and for an infinite value or one beyond
  /// float32, which the library refuses, naming column and row; Error(kNotFound) for one that is
  /// not there.
  void append(const arrow::RecordBatch& batch, int64_t offset, int64_t rows, int64_t first_row);

  const float* data() const { return data_.get(); }
  int64_t rows() const { return rows_; }
  int64_t columns() const { return static_cast<int64_t>(columns_.size()); }

 private:
  struct Free {
    void operator()(float* data) const { std::free(data); }
  };
  void reserve(int64_t rows);
  void look_up(const arrow::Schema& schema);

  const std::vector<std::string>& columns_;
  const std::string where_;
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
