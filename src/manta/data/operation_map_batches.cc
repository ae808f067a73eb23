#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_function.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

class MapBatches final : public BatchOperation {
 public:
  MapBatches(PlanFunction function, int64_t rows) : function_(std::move(function)), rows_(rows) {}

  std::string to_string() const override {
    return str("map_batches(", function_.to_string(), ", batch_size = ", rows_, ")");
  }
  Json to_json(PlanFunctions& functions) const override {
    functions.push_back(function_);
    return {{"op", "map_batches"}, {"function", functions.size() - 1}, {"rows", rows_}};
  }
  void check_after(const Plan&) const override {}
  SchemaPtr schema_after(const SchemaPtr&) const override { return nullptr; }
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t>) const override {
    return std::nullopt;
  }
  bool may_add_rows() const override { return true; }
  bool add_bounds(FileBounds&) const override { return false; }

  Batches run(const Batches& batches, const Place& place) const override {
    Batches results;
    for (const auto& batch : in_batches(batches, place)) {
      auto result = call(batch, place);
      if (result->num_rows() == 0) continue;
      if (!results.empty()) require_same_columns(*results[0]->schema(), *result->schema(), place);
      results.push_back(std::move(result));
    }
    return results;
  }

 private:
  Batches in_batches(const Batches& batches, const Place& place) const {
    try {
      return rechunk(batches, rows_);
    } catch (const Error& error) {
      throw Error(error.kind(), str(place.describe(), ": ", error.what()));
    }
  }

  void require_same_columns(const arrow::Schema& first, const arrow::Schema& now,
                            const Place& place) const {
    if (have_same_columns(first, now)) return;
    fail(place, str("returned batches of different columns: {", describe_columns(first),
                    "} first, then {", describe_columns(now),
                    "}; return the same names and types from every call, also for rows without "
                    "values"));
  }

  BatchPtr call(const BatchPtr& batch, const Place& place) const {
    BatchPtr result;
    try {
      result = function_(batch);
    } catch (const std::exception& error) {
      fail(place, str("threw ", demangle(typeid(error).name()), ": ", error.what()));
    } catch (...) {
      fail(place, "threw what is no std::exception");
    }
    if (!result) fail(place, "returned no batch; return one with no rows to drop them all");
    auto valid = result->Validate();
    if (!valid.ok()) fail(place, str("returned a batch that is not valid: ", valid.message()));
    try {
      require_distinct(result->schema()->field_names(), "the batch that it returned");
    } catch (const Error& error) {
      fail(place, error.what());
    }
    return result;
  }

  [[noreturn]] void fail(const Place& place, const std::string& what) const {
    throw Error(ErrorKind::kUserCode, str(function_.function_name(), " of map_batches, on ",
                                          place.describe(), ", ", what));
  }

  const PlanFunction function_;
  const int64_t rows_;
};

}  // namespace

OperationPtr read_map_batches(const JsonFields& fields, const PlanFunctions& functions) {
  if (functions.empty()) fields.fail("function", "the number of a function: the plan has none");
  auto last = static_cast<int64_t>(functions.size()) - 1;
  auto index = static_cast<size_t>(fields.integer("function", 0, last));
  return std::make_shared<MapBatches>(functions[index], fields.integer("rows", 1, kMaxRows));
}

}  // namespace data

Dataset Dataset::map_function(data::PlanFunction function, const MapBatchesOptions& options) const {
  if (options.batch_size < 1 || options.batch_size > data::kMaxRows) {
    throw Error(ErrorKind::kInvalidArgument,
                str("map_batches needs a batch_size of at least 1 and at most ", data::kMaxRows,
                    ", not ", options.batch_size));
  }
  return then(*this, std::make_shared<data::MapBatches>(std::move(function), options.batch_size));
}

Dataset Dataset::map_batches(data::BatchFunction function, const MapBatchesOptions& options) const {
  if (!function) {
    throw Error(ErrorKind::kInvalidArgument, "map_batches needs a function, not a null pointer");
  }
  return map_function(data::detail::make_plan_function(function, {}), options);
}

}  // namespace manta
