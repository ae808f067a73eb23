#include <arrow/api.h>

#include <algorithm>

#include "manta/base/error.h"
#include "manta/core/function.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/io/arrow_status.h"

namespace manta::data {
namespace {

constexpr int kPlanVersion = 1;

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void add(std::vector<std::string>& names, const std::vector<std::string>& more) {
  for (const auto& name : more) {
    if (!contains(names, name)) names.push_back(name);
  }
}

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

Json address_to_json(const CodeAddress& address) {
  return {{"build_id", to_hex(address.build_id)}, {"offset", address.offset}};
}

CodeAddress address_from_json(const Json& json) {
  CodeAddress address;
  std::string hex = json.at("build_id");
  if (hex.size() != 2 * address.build_id.size() ||
      hex.find_first_not_of("0123456789abcdef") != std::string::npos) {
    throw Error(ErrorKind::kInvalidArgument, str("'", hex, "' is not a build id"));
  }
  for (size_t i = 0; i < address.build_id.size(); ++i) {
    address.build_id[i] = static_cast<uint8_t>(std::stoi(hex.substr(2 * i, 2), nullptr, 16));
  }
  json.at("offset").get_to(address.offset);
  return address;
}

Json operation_to_json(const Operation& operation) {
  switch (operation.kind) {
    case OperationKind::kFilter:
      return {{"op", "filter"}, {"expression", operation.expression.to_json()}};
    case OperationKind::kWithColumn:
      return {{"op", "with_column"},
              {"name", operation.name},
              {"expression", operation.expression.to_json()}};
    case OperationKind::kSelect:
      return {{"op", "select_columns"}, {"columns", operation.columns}};
    case OperationKind::kDrop:
      return {{"op", "drop_columns"}, {"columns", operation.columns}};
    case OperationKind::kDropNa:
      return {{"op", "drop_na"}, {"columns", operation.columns}};
    case OperationKind::kMapBatches: {
      auto function = manta::detail::make_function(operation.function);
      return {{"op", "map_batches"},
              {"thunk", address_to_json(function.thunk)},
              {"target", address_to_json(function.target)},
              {"rows", operation.rows}};
    }
    case OperationKind::kSplit:
      return {{"op", "split"},
              {"part", operation.split->test ? "test" : "train"},
              {"shuffle", operation.split->shuffle},
              {"seed", operation.split->seed},
              {"rows", operation.split->rows},
              {"test_rows", operation.split->test_rows}};
    case OperationKind::kWindowShuffle:
      return {{"op", "window_shuffle"}, {"rows", operation.rows}, {"seed", operation.seed}};
  }
  return {};
}

BatchFunction function_from_json(const Json& json) {
  using BatchThunk = manta::detail::PointerThunk<BatchFunction>;
  Function function{address_from_json(json.at("thunk")), address_from_json(json.at("target"))};
  auto [thunk, target] = resolve_function(function);
  if (thunk != &BatchThunk::invoke || !target) {
    throw Error(ErrorKind::kInvalidArgument, "a map_batches names no function on batches");
  }
  return reinterpret_cast<BatchFunction>(target);
}

Operation operation_from_json(const Json& json) {
  Operation operation;
  const std::string op = json.at("op");
  if (op == "filter" || op == "with_column") {
    operation.kind = op == "filter" ? OperationKind::kFilter : OperationKind::kWithColumn;
    operation.expression = Expression::from_json(json.at("expression"));
    operation.name = json.value("name", "");
  } else if (op == "select_columns" || op == "drop_columns" || op == "drop_na") {
    operation.kind = op == "select_columns" ? OperationKind::kSelect
                     : op == "drop_columns" ? OperationKind::kDrop
                                            : OperationKind::kDropNa;
    json.at("columns").get_to(operation.columns);
  } else if (op == "map_batches") {
    operation.kind = OperationKind::kMapBatches;
    operation.function = function_from_json(json);
    json.at("rows").get_to(operation.rows);
  } else if (op == "split") {
    operation.kind = OperationKind::kSplit;
    auto split = std::make_shared<Split>();
    split->test = json.at("part") == "test";
    json.at("shuffle").get_to(split->shuffle);
    json.at("seed").get_to(split->seed);
    json.at("rows").get_to(split->rows);
    json.at("test_rows").get_to(split->test_rows);
    operation.split = std::move(split);
  } else if (op == "window_shuffle") {
    operation.kind = OperationKind::kWindowShuffle;
    json.at("rows").get_to(operation.rows);
    json.at("seed").get_to(operation.seed);
  } else {
    throw Error(ErrorKind::kInvalidArgument, str("a plan with the unknown operation '", op, "'"));
  }
  return operation;
}

void check_split(const Operation& operation, const std::vector<Fragment>& fragments) {
  if (!operation.split) return;
  const Split& split = *operation.split;
  bool fits = split.rows.size() == fragments.size() && split.test_rows.size() == fragments.size();
  for (size_t i = 0; fits && i < fragments.size(); ++i) {
    fits = split.test_rows[i] >= 0 && split.test_rows[i] <= split.rows[i];
  }
  if (!fits) {
    throw Error(ErrorKind::kInvalidArgument, "a plan whose split does not fit its row groups");
  }
}

std::shared_ptr<arrow::Schema> select_fields(const Operation& operation,
                                             const arrow::Schema& before) {
  for (const auto& name : operation.columns) {
    if (before.GetFieldIndex(name) < 0) {
      throw Error(ErrorKind::kNotFound, str("in ", operation.to_string(), ": ",
                                            no_such_column(name, before.field_names())));
    }
  }
  arrow::FieldVector fields;
  if (operation.kind == OperationKind::kSelect) {
    require_distinct(operation.columns, operation.to_string());
    for (const auto& name : operation.columns) fields.push_back(before.GetFieldByName(name));
  } else {
    for (const auto& field : before.fields()) {
      if (!contains(operation.columns, field->name())) fields.push_back(field);
    }
  }
  return arrow::schema(fields);
}

std::shared_ptr<arrow::DataType> type_of(const Expression& expression,
                                         const arrow::Schema& schema) {
  Piece empty;
  for (const auto& field : schema.fields()) {
    empty.set(field->name(), check(arrow::MakeEmptyArray(field->type()), "making an empty column"));
  }
  return evaluate(expression, empty)->type();
}

}  // namespace

std::string Operation::to_string() const {
  switch (kind) {
    case OperationKind::kFilter:
      return str("filter(", expression.to_string(), ")");
    case OperationKind::kWithColumn:
      return str("with_column(", name, ", ", expression.to_string(), ")");
    case OperationKind::kSelect:
      return str("select_columns(", join(columns), ")");
    case OperationKind::kDrop:
      return str("drop_columns(", join(columns), ")");
    case OperationKind::kDropNa:
      return str("drop_na(", join(columns), ")");
    case OperationKind::kMapBatches:
      return str("map_batches(", describe_function(manta::detail::make_function(function)),
                 ", batch_size = ", rows, ")");
    case OperationKind::kSplit: {
      int64_t kept = 0, all = 0;
      for (size_t i = 0; i < split->rows.size(); ++i) {
        kept += split->kept(i);
        all += split->rows[i];
      }
      return str("train_test_split(", split->test ? "test" : "train", ": ", kept, " of ", all,
                 " rows", split->shuffle ? str(", shuffled, seed = ", split->seed) : "", ")");
    }
    case OperationKind::kWindowShuffle:
      return str("window_shuffle(rows = ", rows, ", seed = ", seed, ")");
  }
  return {};
}

bool Plan::has(OperationKind kind) const {
  return std::any_of(operations.begin(), operations.end(),
                     [&](const auto& operation) { return operation.kind == kind; });
}

int64_t Plan::estimated_rows() const {
  int64_t rows = 0;
  for (const auto& fragment : source->fragments()) rows += fragment.rows;
  for (const auto& operation : operations) {
    if (operation.kind != OperationKind::kSplit) continue;
    rows = 0;
    for (size_t i = 0; i < operation.split->rows.size(); ++i) rows += operation.split->kept(i);
  }
  return rows;
}

Json Plan::to_json() const {
  Json list = Json::array();
  for (const auto& operation : operations) list.push_back(operation_to_json(operation));
  return {{"version", kPlanVersion},
          {"source", source->to_json()},
          {"columns", columns},
          {"operations", list}};
}

std::shared_ptr<const Plan> Plan::from_json(const Json& json) {
  try {
    if (json.at("version") != kPlanVersion) {
      throw Error(ErrorKind::kInvalidArgument, str("a plan of version ", json.at("version").dump(),
                                                   "; this program reads version ", kPlanVersion));
    }
    auto plan = std::make_shared<Plan>();
    plan->source = Source::from_json(json.at("source"));
    json.at("columns").get_to(plan->columns);
    for (const auto& operation : json.at("operations")) {
      plan->operations.push_back(operation_from_json(operation));
      check_split(plan->operations.back(), plan->source->known_fragments());
    }
    return plan;
  } catch (const Json::exception& error) {
    throw Error(ErrorKind::kInvalidArgument,
                str("not a plan as Dataset::to_json writes it: ", error.what()));
  }
}

std::shared_ptr<arrow::Schema> schema_after(const Operation& operation,
                                            const std::shared_ptr<arrow::Schema>& before) {
  if (!before) return nullptr;
  switch (operation.kind) {
    case OperationKind::kFilter: {
      auto type = type_of(operation.expression, *before);
      if (type->id() != arrow::Type::BOOL) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("in ", operation.to_string(), ": the expression is of type ",
                        type->ToString(), ", not a condition; compare it with something"));
      }
      return before;
    }
    case OperationKind::kWithColumn: {
      auto field = arrow::field(operation.name, type_of(operation.expression, *before));
      int index = before->GetFieldIndex(operation.name);
      auto result = index < 0 ? before->AddField(before->num_fields(), field)
                              : before->SetField(index, field);
      return check(std::move(result), operation.to_string());
    }
    case OperationKind::kSelect:
    case OperationKind::kDrop:
      return select_fields(operation, *before);
    case OperationKind::kDropNa:
      select_fields(operation, *before);
      return before;
    case OperationKind::kMapBatches:
      return nullptr;
    case OperationKind::kSplit:
    case OperationKind::kWindowShuffle:
      return before;
  }
  return before;
}

std::shared_ptr<arrow::Schema> schema_of(const Plan& plan, int count) {
  auto all = plan.source->schema();
  arrow::FieldVector fields;
  for (const auto& name : plan.columns) {
    auto field = all->GetFieldByName(name);
    if (!field) throw Error(ErrorKind::kNotFound, no_such_column(name, all->field_names()));
    fields.push_back(field);
  }
  auto schema = arrow::schema(fields);
  size_t end = count < 0 ? plan.operations.size() : static_cast<size_t>(count);
  for (size_t i = 0; i < end && schema; ++i) schema = schema_after(plan.operations[i], schema);
  return schema;
}

ColumnUse columns_used(const Plan& plan) {
  std::vector<std::shared_ptr<arrow::Schema>> schemas = {schema_of(plan, 0)};
  for (const auto& operation : plan.operations) {
    schemas.push_back(schema_after(operation, schemas.back()));
  }
  ColumnUse use;
  use.live_after.resize(plan.operations.size());
  std::optional<std::vector<std::string>> live;
  if (schemas.back()) live = schemas.back()->field_names();
  for (size_t i = plan.operations.size(); i-- > 0;) {
    const Operation& operation = plan.operations[i];
    use.live_after[i] = live;
    std::vector<std::string> looked_at;
    collect_columns(operation.expression.node(), looked_at);
    switch (operation.kind) {
      case OperationKind::kFilter:
        if (live) add(*live, looked_at);
        break;
      case OperationKind::kWithColumn:
        if (live && contains(*live, operation.name)) {
          std::erase(*live, operation.name);
          add(*live, looked_at);
        }
        break;
      case OperationKind::kSelect:
        if (!live) live = operation.columns;
        break;
      case OperationKind::kDropNa:
        if (operation.columns.empty()) live.reset();
        if (live) add(*live, operation.columns);
        break;
      case OperationKind::kMapBatches:
        live.reset();
        break;
      default:
        break;
    }
    if (!live && schemas[i]) live = schemas[i]->field_names();
  }
  for (const auto& name : plan.columns) {
    if (contains(*live, name)) use.read.push_back(name);
  }
  return use;
}

}  // namespace manta::data
