#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/row_batch_internal.h"
#include "manta/data/unknown_column_internal.h"

namespace manta {
namespace data {
namespace {

const char* name_of(FunctionKind kind) {
  switch (kind) {
    case FunctionKind::kMap:
      return "map";
    case FunctionKind::kFlatMap:
      return "flat_map";
    case FunctionKind::kFilter:
      return "filter";
    default:
      return "map_batches";
  }
}

// Calls the function with pieces of the same size, whatever the size of the batches; passes on its
// result, if there are rows in it.
class RowCalls final : public FlowOperation::Flow {
 public:
  RowCalls(const PlanFunction& function, const Place& place)
      : function_(function), place_(place), pieces_(kPieceRows) {}

  void add(const std::shared_ptr<arrow::RecordBatch>& batch, const TakeBatch& take) override {
    for (const auto& piece : naming_place(place_, [&] { return pieces_.add(batch); }))
      call(piece, take);
  }
  void finish(const TakeBatch& take) override {
    if (auto rest = naming_place(place_, [&] { return pieces_.rest(); })) call(rest, take);
  }

 private:
  void call(const BatchPtr& batch, const TakeBatch& take) {
    BatchPtr result;
    try {
      result = function_(batch);
    } catch (const RowFunctionError& error) {
      fail(error.what());
    } catch (const std::exception& error) {
      fail(str("gave rows that cannot be put together: ", error.what()));
    }
    if (result->num_rows() == 0) return;
    if (!columns_) columns_ = result->schema();
    if (!have_same_columns(*columns_, *result->schema())) {
      fail(str("gave rows with different columns: {", describe_columns(*columns_),
               "} first, then {", describe_columns(*result->schema()),
               "}; set values of the same type in every row, and for null an empty "
               "std::optional<type>"));
    }
    take(std::move(result));
  }

  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kUserCode,
                str(function_.function_name(), " of ", name_of(function_.kind()), ", on ",
                    place_.describe(), ", ", what));
  }

  const PlanFunction& function_;
  const Place& place_;
  Rechunk pieces_;
  SchemaPtr columns_;  // of the batches that the function has returned
};

/// `map` and `flat_map`.
class MapRows final : public FlowOperation {
 public:
  explicit MapRows(PlanFunction function) : function_(std::move(function)) {}

  std::string to_string() const override {
    return str(name_of(function_.kind()), "(", function_.to_string(), ")");
  }
  Json to_json(PlanFunctions& functions) const override {
    functions.push_back(function_);
    return {{"op", "map_rows"}, {"function", functions.size() - 1}};
  }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr&) const override { return nullptr; }
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return function_.kind() == FunctionKind::kMap ? before : std::nullopt;
  }
  bool may_add_rows() const override { return function_.kind() != FunctionKind::kMap; }
  bool add_bounds(FileBounds&) const override { return false; }
  std::unique_ptr<Flow> begin(const Place& place) const override {
    return std::make_unique<RowCalls>(function_, place);
  }

 private:
  const PlanFunction function_;
};

/// The rows for which a function is true.
class FilterRows final : public FlowOperation {
 public:
  explicit FilterRows(PlanFunction function) : function_(std::move(function)) {}

  std::string to_string() const override { return str("filter(", function_.to_string(), ")"); }
  Json to_json(PlanFunctions& functions) const override {
    functions.push_back(function_);
    return {{"op", "filter_rows"}, {"function", functions.size() - 1}};
  }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  // The function may read any column.
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool may_add_rows() const override { return false; }
  bool add_bounds(FileBounds&) const override { return true; }
  std::unique_ptr<Flow> begin(const Place& place) const override {
    return std::make_unique<RowCalls>(function_, place);
  }

 private:
  const PlanFunction function_;
};

PlanFunction row_function(const JsonFields& fields, const PlanFunctions& functions, bool filters) {
  if (functions.empty()) fields.fail("function", "the number of a function: the plan has none");
  auto last = static_cast<int64_t>(functions.size()) - 1;
  const auto& function = functions[static_cast<size_t>(fields.integer("function", 0, last))];
  auto kind = function.kind();
  if (kind == FunctionKind::kBatch || filters != (kind == FunctionKind::kFilter)) {
    fields.fail("function", filters ? "the number of a function that says whether a row stays"
                                    : "the number of a function of a row that gives rows");
  }
  return function;
}

}  // namespace

OperationPtr read_map_rows(const JsonFields& fields, const PlanFunctions& functions) {
  return std::make_shared<MapRows>(row_function(fields, functions, false));
}

OperationPtr read_filter_rows(const JsonFields& fields, const PlanFunctions& functions) {
  return std::make_shared<FilterRows>(row_function(fields, functions, true));
}

}  // namespace data

Dataset Dataset::map_rows(data::PlanFunction function) const {
  if (function.kind() == data::FunctionKind::kFilter) {
    return then(*this, std::make_shared<data::FilterRows>(std::move(function)));
  }
  return then(*this, std::make_shared<data::MapRows>(std::move(function)));
}

}  // namespace manta
