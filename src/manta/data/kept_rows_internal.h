#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/operation_internal.h"

namespace arrow {
class Array;
class Buffer;
class DataType;
}  // namespace arrow

namespace manta::data {

/// The rows of a wide operation, in memory. If there are few enough, DuckDB gets their keys and
/// places only, and the rows are gathered by the places that it gives: it moves 16 bytes a row
/// instead of all columns. Otherwise whole rows go through DuckDB, which spills them.
///
/// The values of a row lie beside each other: gathering one by its place reads a few lines of
/// memory, not one for each column.
class KeptRows {
 public:
  /// Batches of `next` are lanes: first `columns`, which are gathered, then the keys, then the
  /// place, made by `places`.
  KeptRows(const std::vector<std::shared_ptr<arrow::DataType>>& columns, NextBatch next);
  ~KeptRows();

  /// How many bytes an operation that may use so many keeps at most.
  static int64_t room(int64_t memory_bytes) { return memory_bytes / 4; }
  /// Takes rows until the end, and says so, or until they have more than so many bytes. What they
  /// have is subtracted from `bytes`.
  bool keep_all(int64_t& bytes);

  int64_t rows() const { return rows_; }  ///< That were kept.
  /// All lanes of the next rows, which are not kept any longer; null at the end.
  std::shared_ptr<arrow::RecordBatch> next();
  /// The keys and places of the next rows, which stay; null at the end. Only if all are kept.
  std::shared_ptr<arrow::RecordBatch> next_keys();

  /// These columns, by their numbers, at these places, as DuckDB gives lanes: text is large_binary.
  /// Null where the place is. Several threads may call it, if all rows are kept.
  std::vector<std::shared_ptr<arrow::Array>> gather(const std::vector<int>& columns,
                                                    const arrow::Array& places) const;
  /// So many rows are gathered at a time, at most: a batch of them has about 8 MiB.
  int64_t rows_at_a_time() const;

  /// The lane of places for the rows of batch number `batch`, of `rows` rows: integers in the order
  /// of the rows.
  static std::shared_ptr<arrow::Array> places(int64_t batch, int64_t rows);

 private:
  /// Where a column is in a row.
  struct Slot {
    std::shared_ptr<arrow::DataType> type;
    bool is_text = false;
    int64_t at = 0, width = 0;
    int64_t null_byte = 0;
    uint8_t null_bit = 0;
    bool has_nulls = false;
  };
  struct Kept {
    std::vector<std::unique_ptr<arrow::Buffer>> blocks;  ///< Of kBlockRows rows each.
    std::vector<std::shared_ptr<arrow::Array>> texts;    ///< That rows point into.
    std::shared_ptr<arrow::RecordBatch> keys;            ///< And places.
  };
  struct Gathered;

  void keep(const arrow::RecordBatch& batch);

  const NextBatch next_;
  std::vector<Slot> slots_;
  int64_t row_bytes_ = 0, nulls_at_ = 0;
  std::vector<uint8_t> no_row_;  ///< Nulls only, for no place.
  std::vector<Kept> kept_;       ///< By batch.
  size_t given_ = 0;             ///< Batches, by `next` or `next_keys`.
  int64_t rows_ = 0, bytes_ = 0;
};

}  // namespace manta::data
