#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/data/expression.h"
#include "manta/data/source_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

using BatchFunction =
    std::shared_ptr<arrow::RecordBatch> (*)(const std::shared_ptr<arrow::RecordBatch>&);

enum class OperationKind {
  kFilter,
  kWithColumn,
  kSelect,
  kDrop,
  kDropNa,
  kMapBatches,
  kSplit,
  kWindowShuffle,
};

/// One part of a train_test_split. Both parts know how many rows each fragment gives before the
/// split and how many of those are test rows, so that each fragment is split by itself.
struct Split {
  bool test = false;     ///< Which part this is.
  bool shuffle = false;  ///< The test rows are drawn; else they are each fragment's last ones.
  uint64_t seed = 0;
  std::vector<int64_t> rows;       ///< Per fragment.
  std::vector<int64_t> test_rows;  ///< Per fragment.

  int64_t kept(size_t fragment) const {
    return test ? test_rows[fragment] : rows[fragment] - test_rows[fragment];
  }
};

/// How many of each fragment's rows are test rows: the last ones of all, or so that each fragment
/// gives its share (the fragments with the largest remainders give one more).
std::vector<int64_t> last_rows(const std::vector<int64_t>& rows, int64_t test_rows);
std::vector<int64_t> allot(const std::vector<int64_t>& rows, int64_t test_rows);

/// One step of a plan; which fields count depends on the kind.
struct Operation {
  OperationKind kind = OperationKind::kFilter;
  Expression expression = true;      ///< kFilter, kWithColumn.
  std::string name;                  ///< kWithColumn.
  std::vector<std::string> columns;  ///< kSelect, kDrop, kDropNa (none: all columns).
  BatchFunction function = nullptr;  ///< kMapBatches.
  int64_t rows = 0;                  ///< Of a batch (kMapBatches), of a window (kWindowShuffle).
  uint64_t seed = 0;                 ///< kWindowShuffle.
  std::shared_ptr<const Split> split;

  /// As the user wrote it: `filter(fare < 1000)`.
  std::string to_string() const;
};

/// What a Dataset is: files, the columns of them that the user asked for, and what is done with
/// their rows.
struct Plan {
  std::shared_ptr<Source> source;
  std::vector<std::string> columns;  ///< The file columns that the operations see.
  std::vector<Operation> operations;

  Json to_json() const;
  /// Throws Error(kInvalidArgument) if it is not what `to_json` writes, or names a function of
  /// another build. Opens no file.
  static std::shared_ptr<const Plan> from_json(const Json& json);

  bool has(OperationKind kind) const;
  /// About how many rows an epoch has: what is known without reading rows, before filters and
  /// functions that come after a split (or after the files, if there is none).
  int64_t estimated_rows() const;
};

/// The schema that comes out of a plan's first `count` operations (all if negative). Null after a
/// map_batches, whose result nobody knows beforehand. Throws what is wrong with an operation.
std::shared_ptr<arrow::Schema> schema_of(const Plan& plan, int count = -1);
/// The schema after one more operation.
std::shared_ptr<arrow::Schema> schema_after(const Operation& operation,
                                            const std::shared_ptr<arrow::Schema>& before);

/// Which file columns the plan's result depends on, and, for each operation, which of the columns
/// that come out of it are used later (nothing: all of them).
struct ColumnUse {
  std::vector<std::string> read;
  std::vector<std::optional<std::vector<std::string>>> live_after;
};
ColumnUse columns_used(const Plan& plan);

}  // namespace manta::data
