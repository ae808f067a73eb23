#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/data/aggregate.h"

namespace arrow {
class Array;
class DataType;
class Field;
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::internal {
class JsonFields;
}

namespace manta::data {

struct PlanFunctions;

/// One aggregate, not a custom one, over a column of a known type: how it goes into DuckDB, what is
/// asked there, and what becomes of the answer.
class PreparedAggregate {
 public:
  /// Throws Error(kNotFound, kInvalidArgument) that names `doing` and the column.
  PreparedAggregate(const Aggregate& aggregate, const arrow::Schema& schema,
                    const std::string& doing);

  std::shared_ptr<arrow::Field> field() const;
  /// The lane that it looks at; null if it counts rows.
  std::shared_ptr<arrow::DataType> lane() const;
  std::shared_ptr<arrow::Array> encode(const arrow::RecordBatch& batch) const;
  /// The SQL over the column with this name, and the lane that comes of it.
  std::string sql(const std::string& column) const;
  std::shared_ptr<arrow::DataType> result_lane() const;
  /// Throws Error(kInvalidArgument) if a sum does not fit into its type.
  std::shared_ptr<arrow::Array> decode(const std::shared_ptr<arrow::Array>& lane) const;
  /// Whether the result's last bits depend on the order in which values are added.
  bool depends_on_order() const;

 private:
  using Kind = Aggregate::Kind;
  Aggregate aggregate_;
  std::shared_ptr<arrow::DataType> type_;   ///< Of the column; null if rows are counted.
  std::shared_ptr<arrow::DataType> plain_;  ///< Without its encoding.
  std::string doing_;
};

/// Appends the function of a custom one to the list.
Json aggregate_to_json(const Aggregate& aggregate, PlanFunctions& functions);
Aggregate aggregate_from_json(const JsonFields& fields, const PlanFunctions& functions);

}  // namespace manta::data
