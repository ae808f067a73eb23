#include <arrow/api.h>

#include <algorithm>
#include <random>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

std::string join(const std::vector<std::string>& names) {
  std::string text;
  for (const auto& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

bool contains(const std::vector<std::string>& names, const std::string& name) {
  return std::find(names.begin(), names.end(), name) != names.end();
}

void require_columns(const std::vector<std::string>& names, const std::vector<std::string>& there,
                     const Operation& operation) {
  for (const auto& name : names) {
    if (contains(there, name)) continue;
    throw Error(ErrorKind::kNotFound,
                str("in ", operation.to_string(), ": ", no_such_column(name, there)));
  }
}

ColumnNames with_columns_of(const Expression& expression, ColumnNames live) {
  if (live) collect_columns(expression.node(), *live);
  return live;
}

std::shared_ptr<arrow::DataType> type_of(const Expression& expression,
                                         const arrow::Schema& schema) {
  Piece empty;
  for (const auto& field : schema.fields()) {
    empty.set(field->name(), check(arrow::MakeEmptyArray(field->type()), "making an empty column"));
  }
  return evaluate(expression, empty)->type();
}

uint64_t draw_seed() {
  std::random_device device;
  // Below 2^53, so that every reader of JSON gets it right.
  return (uint64_t{device()} << 21) ^ device();
}

std::string Place::describe() const { return plan.source->describe(fragment); }

Dataset then(const Dataset& dataset, OperationPtr operation) {
  const Plan& before = *dataset.plan();
  operation->check_after(before);
  for (const auto& inner : operation->inner_plans()) {
    if (!epochs_of(*inner)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", operation->to_string(),
                    ": the other side is repeated, and is read once: call repeat() on the result"));
  }
  if (auto schema = schema_of(before)) operation->schema_after(schema);
  auto plan = std::make_shared<Plan>(before);
  plan->operations.push_back(std::move(operation));
  return Dataset(std::move(plan));
}

}  // namespace manta::data
