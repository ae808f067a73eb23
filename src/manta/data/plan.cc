#include <arrow/api.h>

#include <algorithm>
#include <string_view>
#include <unordered_set>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/data/source_arrow_internal.h"

namespace manta::data {
namespace {

constexpr int kPlanVersion = 1;

Json source_json(const Plan& plan, PlanFunctions& functions) {
  Json json = source_to_json(*plan.source);
  if (auto table = rows_in_memory(*plan.source)) {
    json["table"] = functions.tables.size();
    functions.tables.push_back(std::move(table));
  }
  return json;
}

Json to_json(const Plan& plan, PlanFunctions& functions) {
  Json list = Json::array();
  for (const auto& operation : plan.operations) list.push_back(operation->to_json(functions));
  return {{"version", kPlanVersion},
          {"source", source_json(plan, functions)},
          {"columns", plan.columns},
          {"operations", list}};
}

JsonDocument the_plan() { return {"the plan", ErrorKind::kInvalidArgument}; }

std::shared_ptr<Source> source_from_json(const JsonFields& fields, const PlanFunctions& functions) {
  if (functions.tables.empty() || !fields.has("table")) return read_source(fields);
  auto last = static_cast<int64_t>(functions.tables.size()) - 1;
  return arrow_source(functions.tables[static_cast<size_t>(fields.integer("table", 0, last))]);
}

std::shared_ptr<const Plan> from_json(const JsonFields& fields, const PlanFunctions& functions) {
  fields.integer("version", kPlanVersion, kPlanVersion);
  auto plan = std::make_shared<Plan>();
  plan->source = source_from_json(fields.object("source"), functions);
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

const MaterialisingOperation* materialises(const Operation& operation) {
  return dynamic_cast<const MaterialisingOperation*>(&operation);
}

// Counts fragment by fragment as long as the fragments are the source's, then all rows together.
// `choose` selects the number to go on with, from the rows before an operation and the operation's
// own number of rows after it.
template <class RowsOf, class Choose>
std::optional<int64_t> rows_of_all(const Plan& plan, RowsOf rows_of, Choose choose) {
  using Count = std::optional<int64_t>;
  const auto& operations = plan.operations;
  size_t end = 0;
  while (end < operations.size() && !materialises(*operations[end])) ++end;
  Count all = 0;
  const auto& fragments = plan.source->fragments();
  for (size_t i = 0; i < fragments.size() && all; ++i) {
    Count rows = rows_of(fragments[i]);
    for (size_t k = 0; k < end; ++k) rows = choose(rows, operations[k]->rows_after(i, rows));
    all = rows ? Count(*all + *rows) : std::nullopt;
  }
  for (size_t k = end; k < operations.size(); ++k) {
    auto* materialising = materialises(*operations[k]);
    all = choose(
        all, materialising ? materialising->rows_of_all(all) : operations[k]->rows_after(0, all));
  }
  return all;
}

// An exception of a library counts as damage like any other.
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
  if (auto why = source->why_not_stored(); !why.empty()) return why;
  if (!functions.tables.empty()) return arrow_source(functions.tables[0])->why_not_stored();
  if (is_utf8(json)) return {};
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
    return data::from_json(fields, functions);
  });
}

WirePlan::WirePlan(const Plan& plan) {
  PlanFunctions parts;
  json = data::to_json(plan, parts);
  for (const auto& table : parts.tables) tables.push_back(to_value(table));
  functions = std::move(parts);
}

std::shared_ptr<const Plan> WirePlan::plan() const {
  return reading([&] {
    PlanFunctions parts;
    parts.assign(functions.begin(), functions.end());
    for (const auto& table : tables) {
      parts.tables.push_back(from_value<std::shared_ptr<arrow::Table>>(table));
      if (!parts.tables.back()) throw Error(ErrorKind::kInvalidArgument, "a plan without its rows");
    }
    return data::from_json(JsonFields(json, the_plan()), parts);
  });
}

Json inner_to_json(const Plan& plan, PlanFunctions& functions) { return to_json(plan, functions); }

std::shared_ptr<const Plan> inner_from_json(const JsonFields& fields, const std::string& key,
                                            const PlanFunctions& functions) {
  return from_json(fields.object(key), functions);
}

const WindowOperation* Plan::window_operation() const {
  for (size_t i = operations.size(); i-- > 0 && !materialises(*operations[i]);) {
    if (auto* found = dynamic_cast<const WindowOperation*>(operations[i].get())) return found;
  }
  return nullptr;
}

std::optional<size_t> Plan::last_materialising() const {
  for (size_t i = operations.size(); i-- > 0;) {
    if (materialises(*operations[i])) return i;
  }
  return std::nullopt;
}

std::optional<int64_t> Plan::known_rows() const {
  return rows_of_all(
      *this, [](const Fragment& fragment) { return fragment.rows; },
      [](auto, auto after) { return after; });
}

int64_t Plan::estimated_rows() const {
  return *rows_of_all(
      *this, [](const Fragment& fragment) { return fragment.expected_rows; },
      [](auto before, auto after) { return after ? after : before; });
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
  std::unordered_set<std::string_view> wanted(live->begin(), live->end());
  for (const auto& name : plan.columns) {
    if (wanted.contains(name)) use.read.push_back(name);
  }
  return use;
}

}  // namespace manta::data
