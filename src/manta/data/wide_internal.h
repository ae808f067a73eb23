#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/operation_internal.h"
#include "manta/data/wide.h"
#include "manta/data/wide_query_internal.h"
#include "manta/data/wide_types_internal.h"

namespace manta::data {

/// The columns of some rows on their way through DuckDB and back.
class WideColumns {
 public:
  /// Throws Error(kInvalidArgument) that names a column which cannot make that way.
  WideColumns(SchemaPtr schema, const std::string& doing);

  const SchemaPtr& schema() const { return schema_; }
  size_t size() const { return lanes_.size(); }
  const std::vector<std::shared_ptr<arrow::DataType>>& lanes() const { return lanes_; }
  /// Appends the lanes of a batch. A column that came coded (Source::read_coded) gives a dictionary
  /// array of its lane's type.
  void encode(const arrow::RecordBatch& batch,
              std::vector<std::shared_ptr<arrow::Array>>& lanes) const;
  /// From lanes at `first` and after it.
  std::shared_ptr<arrow::RecordBatch> decode(const arrow::RecordBatch& lanes, int first = 0) const;
  /// From lanes of these columns only, by their numbers.
  std::shared_ptr<arrow::RecordBatch> decode_only(const std::vector<int>& wanted,
                                                  const arrow::RecordBatch& lanes) const;

 private:
  std::shared_ptr<arrow::Array> decode_one(int column,
                                           const std::shared_ptr<arrow::Array>& lane) const;

  SchemaPtr schema_;
  std::vector<std::shared_ptr<arrow::DataType>> lanes_;
};

/// One thing to sort by, beside the columns.
struct OrderKey {
  std::shared_ptr<arrow::DataType> lane;
  bool descending = false;
  bool nulls_first = false;
};
/// The keys' lanes for the rows of a batch, whose first one is the `first_row` of all.
using KeysOf = std::function<std::vector<std::shared_ptr<arrow::Array>>(
    const arrow::RecordBatch& batch, int64_t first_row)>;

/// Gives all rows in the order of the keys; rows with equal keys as they came. False if stopped.
bool sort_rows(const AllRows& rows, const std::vector<OrderKey>& keys, const KeysOf& keys_of,
               int64_t memory_bytes, const std::string& doing,
               const std::function<void(const std::shared_ptr<arrow::RecordBatch>&)>& take);

/// The same, to a sink, which may be given rows that are made when they are read.
bool sort_rows(const AllRows& rows, const std::vector<OrderKey>& keys, const KeysOf& keys_of,
               int64_t memory_bytes, const std::string& doing, RowSink& sink);

/// The keys of a sort by columns, and what makes them of a batch.
std::vector<OrderKey> order_keys(const arrow::Schema& schema,
                                 const std::vector<std::string>& columns,
                                 const std::vector<bool>& descending, Nulls nulls,
                                 const std::string& doing);
KeysOf keys_of_columns(const std::vector<std::string>& columns, const std::vector<bool>& descending,
                       Nulls nulls);

/// Throws Error(kInvalidArgument) that names the column if values of its type have no order.
void require_key(const arrow::Field& field, const std::string& doing);

/// "c0, c1, c2" of one input: `prefix` before each, beginning with c<first>.
std::string lane_list(const std::string& prefix, size_t first, size_t count);

/// The rows of another plan, for operations on two of them.
class OtherRows {
 public:
  /// Reads with these threads, of this epoch. Of `memory_bytes` of the operation, reading ahead
  /// takes an eighth; 0: it holds no rows, and reading takes what it takes elsewhere.
  OtherRows(const std::shared_ptr<const Plan>& plan, const AllRows& beside, int64_t memory_bytes);
  ~OtherRows();
  /// As AllRows::next.
  std::shared_ptr<arrow::RecordBatch> next();
  /// Of the plan, or of its first rows; null if there are none.
  SchemaPtr schema();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

/// Lanes as one batch.
std::shared_ptr<arrow::RecordBatch> lanes_batch(std::vector<std::shared_ptr<arrow::Array>> lanes,
                                                int64_t rows);
/// Consecutive numbers from `first` on.
std::shared_ptr<arrow::Array> numbers_from(int64_t first, int64_t count);
/// Whoever gave `bytes` of an option, or the default if it is 0. Throws if it is negative.
int64_t checked_memory(int64_t bytes, const std::string& doing);
inline int64_t wide_memory(int64_t bytes) { return bytes > 0 ? bytes : default_wide_memory(); }

}  // namespace manta::data
