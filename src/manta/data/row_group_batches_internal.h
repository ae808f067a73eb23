#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/parquet_codes_internal.h"

namespace arrow {
class RecordBatch;
class RecordBatchReader;
class Schema;
}  // namespace arrow

namespace parquet::arrow {
class FileReader;
}  // namespace parquet::arrow

namespace manta::data {

/// The rows of a row group of a Parquet file, in batches. What it calls throws exceptions of the
/// Parquet library, and of Arrow's statuses `parquet::ParquetStatusException`.
class RowGroupBatches {
 public:
  struct Options {
    int row_group = 0;
    int64_t rows = 0;       ///< Of it, as the footer says.
    int64_t most_rows = 0;  ///< Of a batch.
    /// All columns of the data, if they may come coded (Source::read_coded). Null: they may not.
    const arrow::Schema* coded = nullptr;
  };
  /// `leaves`: the columns of the file to read. The reader must stay.
  RowGroupBatches(parquet::arrow::FileReader& file, std::vector<int> leaves,
                  const Options& options);
  ~RowGroupBatches();

  /// Null at the end. Columns in any order.
  std::shared_ptr<arrow::RecordBatch> next();

 private:
  struct Coded {
    std::string name;
    std::unique_ptr<CodedChunk> chunk;
  };

  const int64_t most_rows_;
  int64_t left_;
  std::vector<Coded> coded_;
  std::unique_ptr<arrow::RecordBatchReader> others_;  ///< Null: all columns are coded.
};

}  // namespace manta::data
