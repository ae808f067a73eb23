#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta::data {
namespace {

constexpr int kPlanVersion = 1;

Json to_json(const Plan& plan, PlanFunctions& functions) {
  Json list = Json::array();
  for (const auto& operation : plan.operations) list.push_back(operation->to_json(functions));
  return {{"version", kPlanVersion},
          {"source", source_to_json(*plan.source)},
          {"columns", plan.columns},
          {"operations", list}};
}

JsonDocument the_plan() { return {"the plan", ErrorKind::kInvalidArgument}; }

std::shared_ptr<const Plan> from_json(const Json& json, const PlanFunctions& functions) {
  JsonFields fields(json, the_plan());
  fields.integer("version", kPlanVersion, kPlanVersion);
  auto plan = std::make_shared<Plan>();
  plan->source = read_source(fields.object("source"));
  plan->columns = fields.texts("columns", kLongestName);
  require_distinct(plan->columns, "the columns of a plan");
  size_t operations = fields.array("operations").size();
  for (size_t i = 0; i < operations; ++i) {
    auto operation = read_operation(fields.element("operations", i), functions);
    operation->check_after(*plan);
    plan->operations.push_back(std::move(operation));
  }
  return plan;
}

// What a library may still throw is no different from other damage.
template <class Read>
std::shared_ptr<const Plan> reading(Read read) {
  try {
    return read();
  } catch (const Error&) {
    throw;
  } catch (const std::exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                str("not a plan as Dataset::to_json writes it: ", error.what()));
  }
}

}  // namespace

std::string Plan::why_not_stored() const {
  PlanFunctions functions;
  Json json = data::to_json(*this, functions);
  for (const auto& function : functions) {
    if (auto why = function.why_not_stored(); !why.empty()) return why;
    if (!is_utf8(function.to_json())) {
      return str("the arguments of the function ", function.function_name(),
                 " of map_batches have a text that is not UTF-8");
    }
  }
  if (is_utf8(json)) return {};
  if (auto why = source->why_not_stored(); !why.empty()) return why;
  return "the name of a column is not UTF-8. Write the file with other names";
}

Json Plan::to_json() const {
  if (auto why = why_not_stored(); !why.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "this data set cannot be stored: " + why);
  }
  PlanFunctions functions;
  Json json = data::to_json(*this, functions);
  Json named = Json::array();
  for (const auto& function : functions) named.push_back(function.to_json());
  if (!named.empty()) json["functions"] = std::move(named);
  return json;
}

std::shared_ptr<const Plan> Plan::from_json(const Json& json) {
  return reading([&] {
    check_depth(json, "the plan", kMaxPlanNesting);
    PlanFunctions functions;
    JsonFields fields(json, the_plan());
    size_t count = fields.has("functions") ? fields.array("functions").size() : 0;
    for (size_t i = 0; i < count; ++i) {
      functions.push_back(PlanFunction::from_json(fields.element("functions", i)));
    }
    return data::from_json(json, functions);
  });
}

WirePlan::WirePlan(const Plan& plan) { json = data::to_json(plan, functions); }

std::shared_ptr<const Plan> WirePlan::plan() const {
  return reading([&] { return data::from_json(json, functions); });
}

const WindowOperation* Plan::window_operation() const {
  for (const auto& operation : operations) {
    if (auto* found = dynamic_cast<const WindowOperation*>(operation.get())) return found;
  }
  return nullptr;
}

int64_t Plan::estimated_rows() const {
  int64_t rows = 0;
  const auto& fragments = source->fragments();
  for (size_t i = 0; i < fragments.size(); ++i) {
    int64_t of_fragment = fragments[i].expected_rows;
    for (const auto& operation : operations) {
      of_fragment = operation->rows_after(i, of_fragment).value_or(of_fragment);
    }
    rows += of_fragment;
  }
  return rows;
}

std::vector<std::shared_ptr<arrow::Schema>> schemas_of(const Plan& plan) {
  auto all = plan.source->schema();
  arrow::FieldVector fields;
  for (const auto& name : plan.columns) {
    auto field = all->GetFieldByName(name);
    if (!field) throw Error(ErrorKind::kNotFound, no_such_column(name, all->field_names()));
    fields.push_back(field);
  }
  std::vector<std::shared_ptr<arrow::Schema>> schemas = {arrow::schema(fields)};
  for (const auto& operation : plan.operations) {
    const auto& before = schemas.back();
    schemas.push_back(before ? operation->schema_after(before) : nullptr);
  }
  return schemas;
}

std::shared_ptr<arrow::Schema> schema_of(const Plan& plan) { return schemas_of(plan).back(); }

ColumnUse columns_used(const Plan& plan) {
  auto schemas = schemas_of(plan);
  ColumnUse use;
  use.live_after.resize(plan.operations.size());
  ColumnNames live;
  if (schemas.back()) live = schemas.back()->field_names();
  for (size_t i = plan.operations.size(); i-- > 0;) {
    use.live_after[i] = live;
    live = plan.operations[i]->columns_needed(std::move(live));
    if (!live && schemas[i]) live = schemas[i]->field_names();
  }
  for (const auto& name : plan.columns) {
    if (contains(*live, name)) use.read.push_back(name);
  }
  return use;
}

}  // namespace manta::data
