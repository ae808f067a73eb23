#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/expression_internal.h"

namespace arrow {
class Array;
class Buffer;
}  // namespace arrow

namespace manta::data {

/// Which rows of a piece are still there. Filters only note it here; rows are moved once, when it
/// pays.
class RowMask {
 public:
  explicit RowMask(int64_t rows) : rows_(rows), kept_(rows) {}

  int64_t rows() const { return rows_; }
  int64_t kept() const { return kept_; }
  bool keeps_all() const { return kept_ == rows_; }

  /// Removes the rows where the condition is false or null.
  void keep_true(const arrow::Array& condition);
  /// Removes the rows where the column is null or NaN, whatever its type: also where a dictionary's
  /// value, a run or a union's member is.
  void keep_valid(const std::shared_ptr<arrow::Array>& column);
  void keep_bits(const uint8_t* bits, int64_t offset);

  /// Leaves only the kept rows in the columns; afterwards nothing is pending.
  void apply(Piece& piece);

 private:
  std::vector<uint32_t> kept_rows() const;
  bool has_kept_nulls(const arrow::Array& column) const;

  int64_t rows_ = 0;
  int64_t kept_ = 0;
  std::shared_ptr<arrow::Buffer> bits_;  // null: all rows
};

/// The expression's value for each row of the piece. Only kept rows can make it fail: others may be
/// computed with, and are taken out when that does not work (a cast, an overflow).
std::shared_ptr<arrow::Array> evaluate_kept(const Expression& expression, Piece& piece,
                                            RowMask& mask);

}  // namespace manta::data
