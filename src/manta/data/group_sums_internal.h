#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/aggregate_internal.h"

namespace arrow {
class Array;
class DataType;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

/// Adds up groups while rows are read, as long as there are few groups: counts, and sums and means
/// of floating-point numbers. Such sums depend on the order of additions, so DuckDB, which is
/// slower at this, would have to see all rows on one thread. DuckDB is used only if there are too
/// many groups: it then gets the sums so far and the rows that follow. The additions are the same
/// as DuckDB's, in the same order.
class GroupSums {
 public:
  static constexpr uint32_t kMostGroups = 4096;

  /// Whether it can compute all of these, and should. The aggregates must not be custom ones.
  static bool suits(const std::vector<std::string>& keys, const std::vector<Aggregate>& aggregates,
                    const arrow::Schema& schema);

  GroupSums(std::vector<std::string> keys, const std::vector<Aggregate>& aggregates,
            const std::vector<PreparedAggregate>& prepared);
  ~GroupSums();

  /// Adds rows until there would be too many groups. Returns how many rows it took. If it did not
  /// take all, it takes no more rows after that.
  int64_t add(const arrow::RecordBatch& batch);
  /// If it took all rows: the lanes of the keys and of the results, in the order of keys, nulls
  /// last. Null if there are no groups.
  std::shared_ptr<arrow::RecordBatch> results() const;

  /// Otherwise: the lanes that DuckDB gets after those of the keys, and the SQL of each aggregate
  /// over columns c<first>, c<first + 1>, ...
  std::vector<std::shared_ptr<arrow::DataType>> lanes() const;
  std::vector<std::string> sql(size_t first) const;
  /// Lanes, including those of the keys. `groups` gives one row for each group, `single_rows` each
  /// row of a batch as its own group. Null if there are none.
  std::shared_ptr<arrow::RecordBatch> groups() const;
  std::shared_ptr<arrow::RecordBatch> single_rows(const arrow::RecordBatch& batch) const;

 private:
  using Kind = Aggregate::Kind;
  struct Table;
  struct Sum;
  int64_t find_groups(const arrow::RecordBatch& batch);
  std::vector<std::shared_ptr<arrow::Array>> key_lanes() const;

  const std::vector<std::string> keys_;
  std::vector<Sum> sums_;
  std::vector<Table> tables_;  // for the first key; then for each further key together with the
                               // keys before it
  std::vector<uint32_t> ids_, others_;
  std::vector<int64_t> fresh_;  // the rows of a batch that begin a group
  std::vector<std::vector<std::shared_ptr<arrow::Array>>> values_;  // of each key, by group
  uint32_t num_groups_ = 0;
};

}  // namespace manta::data
