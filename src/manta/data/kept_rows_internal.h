#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "manta/data/codebook_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/row_layout_internal.h"
#include "manta/data/slab_memory_internal.h"

namespace arrow {
class Array;
class Buffer;
class DataType;
}  // namespace arrow

namespace manta::data {

/// The rows of a wide operation, in memory. If there are few enough, DuckDB (or, for one key,
/// `give_ordered_places`) gets their keys and places only, and the rows are gathered by the places
/// that it gives: it moves 16 bytes a row instead of all columns. Otherwise whole rows go through
/// DuckDB, which spills them.
///
/// The values of a row lie beside each other (RowLayout). Columns that come dictionary-encoded, as
/// they lie in files, take a byte or two in a row (Codebook): kernels hand out fresh memory about
/// as fast as a thread decodes values into it, so that rows of a fifth of the size are kept in less
/// time, too.
class KeptRows {
 public:
  /// Batches of `next` are lanes: first `columns`, which are gathered, then the keys, then the
  /// place, made by `places`. A batch may have a column as a dictionary array of its lane's type,
  /// with indices of int32 and no null among its values.
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
  /// So many rows are gathered at a time, at most: a batch of them has about 8 MiB if they are as
  /// large as those that were kept.
  int64_t rows_at_a_time() const;
  /// The bytes of all texts of the row at a place, and the most that a row has.
  int64_t text_bytes(int64_t place) const;
  int64_t most_text_bytes() const;  ///< Or somewhat more.

  /// The lane of places for the rows of batch number `batch`, of `rows` rows: integers in the order
  /// of the rows.
  static std::shared_ptr<arrow::Array> places(int64_t batch, int64_t rows);

 private:
  struct Kept {
    size_t first_block = 0;
    std::vector<std::shared_ptr<arrow::Buffer>> blocks;  ///< Of kBlockRows rows each.
    std::vector<std::shared_ptr<arrow::Array>> texts;    ///< That rows point into.
    std::shared_ptr<arrow::RecordBatch> keys;            ///< And places.
  };

  /// How the next rows have a column.
  struct Form {
    std::unique_ptr<Codebook> book;  ///< Null: their values. It stays for the rows that use it.
    int64_t code_width = 0;          ///< 0: their values.
  };
  /// Where rows are, and how.
  struct Block {
    const uint8_t* rows;
    const RowLayout* layout;
  };
  struct RowPlace {
    const uint8_t* row;
    const RowLayout* layout;
  };

  void keep(const arrow::RecordBatch& batch);
  void stop_keeping();
  void keep_keys(const arrow::RecordBatch& batch, Kept& kept);
  std::vector<RowLayout::Column> columns_of(const arrow::RecordBatch& batch);
  bool set_form(size_t column, const arrow::Array& lane);
  RowPlace row_at(int64_t place) const;
  int64_t book_bytes() const;
  size_t columns() const { return types_.size(); }

  const std::vector<std::shared_ptr<arrow::DataType>> types_;
  NextBatch next_;           ///< Null once all are kept.
  std::vector<Form> forms_;  ///< By column, once there are rows.
  /// Each is that of the next rows until they need another: a column has too many values for its
  /// codes, say. The first one has no codes and, mostly, no rows.
  std::vector<std::unique_ptr<RowLayout>> layouts_;
  SlabMemory memory_;  ///< Of blocks; empty once no more are taken.
  std::vector<Block> blocks_;
  std::vector<Kept> kept_;                        ///< By batch.
  size_t given_ = 0;                              ///< Batches, by `next` or `next_keys`.
  int64_t rows_ = 0, bytes_ = 0, row_bytes_ = 0;  ///< `row_bytes_`: the bytes in blocks.
  int64_t most_text_bytes_ = 0;                   ///< Of a row, but for those that are coded.
};

/// How many rows are gathered as one part, from rows of one or several sides. A join repeats rows,
/// and a sort brings large ones together, so the texts of those that are gathered count: a part has
/// at most 16 MiB of them, or one row.
class GatheredParts {
 public:
  /// In the order of the lanes of places.
  explicit GatheredParts(std::vector<const KeptRows*> sides);
  /// Of the rows that begin with `first`; at least one.
  int64_t rows(const arrow::RecordBatch& places, int64_t first) const;

 private:
  const std::vector<const KeptRows*> sides_;
  int64_t most_rows_;
  int64_t most_text_bytes_ = 0;  ///< That one row can have.
};

}  // namespace manta::data
