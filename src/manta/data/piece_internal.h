#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace arrow {
class Array;
class MemoryPool;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

/// Some rows while operations run on them.
struct Piece {
  std::vector<std::string> names;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  int64_t rows = 0;

  const std::shared_ptr<arrow::Array>* find(const std::string& name) const;
  void set(const std::string& name, std::shared_ptr<arrow::Array> column);
};

Piece to_piece(const arrow::RecordBatch& batch);
std::shared_ptr<arrow::RecordBatch> to_batch(Piece piece);

/// Keeps the columns in `names` if `listed`, otherwise the columns that are not in `names`.
void keep_columns(Piece& piece, const std::vector<std::string>& names, bool listed);
/// Keeps these columns, in this order. Throws Error(kNotFound) if one is not there.
void pick_columns(Piece& piece, const std::vector<std::string>& names, const std::string& doing);
/// Brings the columns into this order; names of columns that are not there are ignored.
void order_columns(Piece& piece, const std::vector<std::string>& names);

using Batches = std::vector<std::shared_ptr<arrow::RecordBatch>>;

int64_t count_rows(const Batches& batches);
/// One batch of all rows; there must be at least one batch. `pool` provides new memory; null:
/// Arrow's own pool does.
std::shared_ptr<arrow::RecordBatch> concatenate(const Batches& batches,
                                                arrow::MemoryPool* pool = nullptr);
/// Whether names and types are the same, in the same order.
bool have_same_columns(const arrow::Schema& a, const arrow::Schema& b);
/// "id: int64, text: string".
std::string describe_columns(const arrow::Schema& schema);
/// The same rows in batches of `rows`, the last one shorter.
Batches rechunk(const Batches& batches, int64_t rows);

/// The same for batches that come one after the other.
class Rechunk {
 public:
  explicit Rechunk(int64_t rows) : rows_(rows), missing_(rows) {}
  /// The batches of `rows` rows that are complete.
  Batches add(const std::shared_ptr<arrow::RecordBatch>& batch);
  /// The last rows. Null if there are none.
  std::shared_ptr<arrow::RecordBatch> rest();

 private:
  const int64_t rows_;
  int64_t missing_;
  Batches parts_;
};

}  // namespace manta::data
