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

/// One built-in aggregate over a column of a known type: the lane that goes into DuckDB, the SQL
/// that is run there, and the conversion of the result.
class PreparedAggregate {
 public:
  /// Throws Error(kNotFound, kInvalidArgument) that names `doing` and the column.
  PreparedAggregate(const Aggregate& aggregate, const arrow::Schema& schema,
                    const std::string& doing);

  std::shared_ptr<arrow::Field> field() const;
  /// The lane that it reads; null if it counts rows.
  std::shared_ptr<arrow::DataType> lane() const;
  std::shared_ptr<arrow::Array> encode(const arrow::RecordBatch& batch) const;
  /// The SQL over the column with this name, and the type of the lane that results.
  std::string sql(const std::string& column) const;
  std::shared_ptr<arrow::DataType> result_lane() const;
  /// Throws Error(kInvalidArgument) if a sum does not fit into its type.
  std::shared_ptr<arrow::Array> decode(const std::shared_ptr<arrow::Array>& lane) const;
  /// Whether the result's last bits depend on the order in which values are added.
  bool depends_on_order() const;

 private:
  using Kind = Aggregate::Kind;
  Aggregate aggregate_;
  std::shared_ptr<arrow::DataType> type_;   ///< The column's type; null if rows are counted.
  std::shared_ptr<arrow::DataType> plain_;  ///< The column's type without its encoding.
  std::string doing_;
};

/// Appends the function of a custom aggregate to the list.
Json aggregate_to_json(const Aggregate& aggregate, PlanFunctions& functions);
Aggregate aggregate_from_json(const JsonFields& fields, const PlanFunctions& functions);

}  // namespace manta::data
