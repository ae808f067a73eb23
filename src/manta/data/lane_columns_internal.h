#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/duckdb_internal.h"

namespace arrow {
class Array;
class DataType;
class RecordBatch;
}  // namespace arrow

namespace manta::data {

/// Copies rows of a lane into a vector of DuckDB.
void fill_vector(duck::Vector vector, const arrow::Array& lane, int64_t first, int64_t rows);

/// Takes columns from DuckDB's chunks until there are enough for a batch.
class LaneColumns {
 public:
  explicit LaneColumns(const std::vector<std::shared_ptr<arrow::DataType>>& types);
  ~LaneColumns();

  int64_t rows() const { return rows_; }
  /// About how many bytes of text and lists there are.
  int64_t bytes() const;
  void add(duck::Chunk chunk, int64_t first, int64_t rows);
  /// Takes the rows so far as one batch, and begins anew.
  std::shared_ptr<arrow::RecordBatch> take();

 private:
  struct Column;
  std::vector<std::unique_ptr<Column>> columns_;
  int64_t rows_ = 0;
};

}  // namespace manta::data
