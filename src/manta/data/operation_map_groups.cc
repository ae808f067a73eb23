#include <arrow/api.h>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/group_calls_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/sorted_groups_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class MapGroups final : public MaterialisingOperation {
 public:
  MapGroups(std::vector<std::string> keys, PlanFunction function, int64_t memory)
      : keys_(std::move(keys)), function_(std::move(function)), memory_(memory) {
    require_distinct(keys_, "the keys of a groupby");
  }

  std::string to_string() const override {
    return str("groupby(", join(keys_), ").map_groups(", function_.to_string(), ")");
  }
  Json to_json(PlanFunctions& functions) const override {
    functions.push_back(function_);
    return {{"op", "map_groups"},
            {"keys", keys_},
            {"function", functions.size() - 1},
            {"memory", memory_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(keys_, before->field_names(), *this);
    order_keys(*before, keys_, upwards(), Nulls::kLast, to_string());
    WideColumns(before, to_string());
    return nullptr;
  }
  ColumnNames columns_needed(ColumnNames) const override { return std::nullopt; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t>) const override { return std::nullopt; }
  bool add_bounds(FileBounds&) const override { return false; }
  int64_t memory_bytes() const override { return wide_memory(memory_); }

  void run(const AllRows& rows, RowSink& sink) const override {
    Batches group;
    SchemaPtr schema;
    auto take = [&](const BatchPtr& result) {
      if (result->num_rows() == 0) return;
      if (schema && !have_same_columns(*schema, *result->schema())) {
        fail(str("returned batches of different columns: {", describe_columns(*schema),
                 "} first, then {", describe_columns(*result->schema()), "}"));
      }
      schema = result->schema();
      sink.add(result);
    };
    GroupCalls<BatchPtr> calls([this](const BatchPtr& whole) { return call(whole); }, take,
                               rows.threads, rows.work);
    auto end_group = [&] {
      if (group.empty()) return;
      calls.add(concatenate(group));
      group.clear();
    };
    bool all_there = for_each_group(rows, keys_, memory_, to_string(),
                                    [&](const BatchPtr& some, bool first_of_group) {
                                      if (first_of_group) end_group();
                                      group.push_back(some);
                                    });
    if (!all_there) return;
    end_group();
    calls.finish();
  }

 private:
  std::vector<bool> upwards() const { return std::vector<bool>(keys_.size(), false); }

  BatchPtr call(const BatchPtr& batch) const {
    BatchPtr result;
    try {
      result = function_(batch);
    } catch (const std::exception& error) {
      fail(str("threw ", demangle(typeid(error).name()), ": ", error.what()));
    } catch (...) {
      fail("threw what is no std::exception");
    }
    if (!result) fail("returned no batch; return one with no rows to leave the group out");
    if (auto valid = result->Validate(); !valid.ok()) {
      fail(str("returned a batch that is not valid: ", valid.message()));
    }
    try {
      require_distinct(result->schema()->field_names(), "the batch that it returned");
    } catch (const Error& error) {
      fail(error.what());
    }
    return result;
  }
  [[noreturn]] void fail(const std::string& what) const {
    throw Error(ErrorKind::kUserCode, str(function_.function_name(), " of map_groups ", what));
  }

  const std::vector<std::string> keys_;
  const PlanFunction function_;
  const int64_t memory_;
};

}  // namespace

OperationPtr read_map_groups(const JsonFields& fields, const PlanFunctions& functions) {
  if (functions.empty()) fields.fail("function", "the number of a function: the plan has none");
  auto last = static_cast<int64_t>(functions.size()) - 1;
  auto keys = fields.texts("keys", kLongestName);
  if (keys.empty()) fields.fail("keys", "at least one column");
  return std::make_shared<MapGroups>(
      std::move(keys), functions[static_cast<size_t>(fields.integer("function", 0, last))],
      checked_memory(fields.integer("memory", 0, kMaxRows), "groupby"));
}

}  // namespace data

Dataset GroupedDataset::map_function(data::PlanFunction function) const {
  return then(dataset_,
              std::make_shared<data::MapGroups>(keys_, std::move(function), memory_bytes_));
}

}  // namespace manta
