#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/base/names_internal.h"
#include "manta/core/archive_json.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/source_internal.h"

namespace arrow {
class RecordBatch;
class Schema;
}  // namespace arrow

namespace manta::data {

/// The deepest nesting of arrays and objects in a plan's JSON. The levels of an expression include
/// those of the plan around it; the arguments of a function lie inside three levels of the plan.
inline constexpr int kMaxPlanNesting = kMaxJsonNesting + 3;

/// The content of a Dataset: files, the columns that the user asked for, and the operations on
/// their rows.
struct Plan {
  std::shared_ptr<Source> source;
  std::vector<std::string> columns;  ///< The file columns that the operations see.
  std::vector<OperationPtr> operations;
  /// If this plan is the beginning of another plan: that plan, whose filters may rule out
  /// fragments.
  std::shared_ptr<const Plan> part_of = {};

  /// The JSON for a file, which holds functions only by their names. Throws Error(kInvalidArgument)
  /// if a function has no name, or if a name or a path is not UTF-8, which JSON would change.
  Json to_json() const;
  /// Why `to_json` throws; empty if it does not.
  std::string why_not_stored() const;
  /// Takes any JSON. Throws an Error if it is not what `to_json` writes, or names a function that
  /// this program does not have. Opens no file.
  static std::shared_ptr<const Plan> from_json(const Json& json);

  /// The operation that makes windows in the last stage; null if there is none.
  const WindowOperation* window_operation() const;
  /// The place of the last operation that materialises; nothing if the plan is one stage.
  std::optional<size_t> last_materialising() const;
  /// How many rows an epoch has; nothing if it takes reading rows to know. Opens all files.
  std::optional<int64_t> known_rows() const;
  /// About how many rows an epoch has: what is known without reading rows, before filters and
  /// functions that come after a split (or after the files, if there is none).
  int64_t estimated_rows() const;
};

/// A plan on its way to another process of this run: its JSON, and what JSON never holds: the
/// functions, and rows in memory.
struct WirePlan {
  Json json;
  std::vector<PlanFunction> functions;
  /// The tables of from_arrow of this plan and the plans inside it. Large tables travel through
  /// shared memory.
  std::vector<Value> tables;

  WirePlan() = default;
  explicit WirePlan(const Plan& plan);
  std::shared_ptr<const Plan> plan() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(json, functions, tables);
  }
};

/// The JSON of a plan inside another, as an operation holds it (the right side of a join). Its
/// functions and tables are added to those of the plan around it.
Json inner_to_json(const Plan& plan, PlanFunctions& functions);
std::shared_ptr<const Plan> inner_from_json(const JsonFields& fields, const std::string& key,
                                            const PlanFunctions& functions);

/// How many epochs a training run has of the plan, as `Dataset::repeat` says; nothing if it does
/// not say.
std::optional<int64_t> epochs_of(const Plan& plan);
inline constexpr int64_t kEndlessly = -1;

/// The schema before each operation, and at the end. Null after a map_batches, whose result is not
/// known beforehand. Throws the error of an operation that does not fit.
std::vector<std::shared_ptr<arrow::Schema>> schemas_of(const Plan& plan);
/// The last of them.
std::shared_ptr<arrow::Schema> schema_of(const Plan& plan);

/// Which file columns the plan's result depends on, and, for each operation, which of the columns
/// that come out of it are used later.
struct ColumnUse {
  std::vector<std::string> read;
  std::vector<ColumnNames> live_after;
};
ColumnUse columns_used(const Plan& plan);

}  // namespace manta::data
