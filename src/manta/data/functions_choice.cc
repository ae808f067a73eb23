#include <arrow/api.h>

#include "manta/data/choose_rows_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/gather_internal.h"

namespace manta {
namespace data {
namespace {

using arrow::Datum;
using arrow::Type;
using ArrayPtr = std::shared_ptr<arrow::Array>;

Datum nan_flags(Evaluator& evaluator, const ExpressionNode& node) {
  Datum value = evaluator.operand(node, 0);
  if (value.type()->id() == Type::NA) return evaluator.promote(value, arrow::boolean());
  if (meaning_of(*value.type()) != Meaning::kNumber) {
    evaluator.throw_types(node, "only numbers can be NaN");
  }
  if (value.type()->id() == Type::HALF_FLOAT) value = evaluator.cast(value, arrow::float32());
  if (arrow::is_floating(value.type()->id())) return evaluator.call("is_nan", {value});
  return *equals_one_of(value, {});
}

Datum among(Evaluator& evaluator, const ExpressionNode& node) {
  Datum value = evaluator.operand(node, 0);
  std::vector<std::shared_ptr<arrow::Scalar>> constants;
  for (size_t i = 1; i < node.arguments.size(); ++i) {
    if (node.arguments[i]->op != ExpressionOp::kLiteral) {
      evaluator.fail(str(to_string(node), " needs constants, not ", to_string(*node.arguments[i]),
                         "; use == and || for columns"));
    }
    Datum constant = literal_value(node.arguments[i]->literal);
    constants.push_back(evaluator.as_time_beside(constant, *value.type()).scalar());
  }
  if (auto result = equals_one_of(value, constants)) return *result;
  evaluator.throw_types(node,
                        "compare numbers with numbers, texts with texts and times with times");
}

Datum first_valid(Evaluator& evaluator, const ExpressionNode& node) {
  std::vector<Datum> values;
  for (size_t i = 0; i < node.arguments.size(); ++i) values.push_back(evaluator.operand(node, i));
  return first_valid_rows(evaluator.as_one_type(node, std::move(values)), evaluator.rows());
}

// The first value where `op` holds between the two, or where it is NaN; otherwise the second.
Datum chosen_of_two(Evaluator& evaluator, const ExpressionNode& node, ExpressionOp op) {
  Datum a = evaluator.operand(node, 0), b = evaluator.operand(node, 1);
  b = evaluator.as_time_beside(b, *a.type());
  a = evaluator.as_time_beside(a, *b.type());
  auto first = compare(op, a, b);
  if (!first) evaluator.throw_types(node, "compare numbers with numbers and times with times");
  auto values = evaluator.as_one_type(node, {a, b});
  if (arrow::is_floating(values[0].type()->id()) && values[0].type()->id() != Type::HALF_FLOAT) {
    first = evaluator.call("or_kleene", {*first, evaluator.call("is_nan", {values[0]})});
  }
  return if_else_rows(*first, values[0], values[1], evaluator.rows());
}

// The rows of a piece at these places, with the columns that the node reads.
Piece rows_at(Evaluator& evaluator, const ExpressionNode& node, const ArrayPtr& places) {
  Piece some;
  some.rows = places->length();
  std::vector<std::string> names;
  collect_columns(node, names);
  for (const auto& name : names) {
    auto* column = evaluator.piece().find(name);
    if (column) some.set(name, take_rows(**column, *places));
  }
  return some;
}

// Computes a branch only on the rows that take it, because it failed on all rows. Null elsewhere.
Datum on_own_rows(Evaluator& evaluator, const ExpressionNode& node, size_t index,
                  const std::vector<int64_t>& choices, int64_t choice) {
  arrow::Int64Builder places, back;
  for (size_t row = 0; row < choices.size(); ++row) {
    bool taken = choices[row] == choice;
    auto status = taken ? back.Append(places.length()) : back.AppendNull();
    if (status.ok() && taken) status = places.Append(static_cast<int64_t>(row));
    evaluator.get(arrow::Result<bool>(status.ok() ? arrow::Result<bool>(true) : status));
  }
  const ExpressionNode& branch = *node.arguments[index];
  Piece some = rows_at(evaluator, branch, evaluator.get(places.Finish()));
  Evaluator own(evaluator.expression(), some);
  auto values = own.as_array(own.operand(node, index));
  return Datum(take_rows(*values, *evaluator.get(back.Finish())));
}

Datum chosen(Evaluator& evaluator, const ExpressionNode& node) {
  size_t conditions = (node.arguments.size() - 1) / 2;
  if (node.arguments.size() % 2 == 0) {
    evaluator.fail(
        str(to_string(node), " needs a value behind each condition, and one at the end"));
  }
  std::vector<int64_t> choices(static_cast<size_t>(evaluator.rows()),
                               static_cast<int64_t>(conditions));
  for (size_t i = conditions; i-- > 0;) {
    Datum condition = evaluator.operand(node, 2 * i);
    if (condition.type()->id() == Type::NA) continue;
    if (condition.type()->id() != Type::BOOL) evaluator.throw_types(node, "it needs a condition");
    auto array = evaluator.as_array(condition);
    auto& flags = static_cast<const arrow::BooleanArray&>(*array);
    for (int64_t row = 0; row < flags.length(); ++row) {
      if (flags.IsValid(row) && flags.Value(row)) {
        choices[static_cast<size_t>(row)] = static_cast<int64_t>(i);
      }
    }
  }
  std::vector<Datum> values;
  for (size_t i = 0; i <= conditions; ++i) {
    size_t index = i < conditions ? 2 * i + 1 : 2 * i;
    try {
      values.push_back(evaluator.operand(node, index));
    } catch (const Error&) {
      values.push_back(on_own_rows(evaluator, node, index, choices, static_cast<int64_t>(i)));
    }
  }
  values = evaluator.as_one_type(node, std::move(values));
  arrow::Int64Builder builder;
  auto added = builder.AppendValues(choices);
  evaluator.get(arrow::Result<bool>(added.ok() ? arrow::Result<bool>(true) : added));
  auto places = evaluator.get(builder.Finish());
  return choose_rows(static_cast<const arrow::Int64Array&>(*places), values);
}

constexpr ExpressionFunction kChoiceFunctions[] = {
    {"is_nan", 1, 1, nan_flags},
    {"is_in", 1, kAnyNumber, among},
    {"coalesce", 1, kAnyNumber, first_valid},
    {"min_of", 2, 2,
     [](Evaluator& e, const ExpressionNode& n) {
       return chosen_of_two(e, n, ExpressionOp::kLessEqual);
     }},
    {"max_of", 2, 2,
     [](Evaluator& e, const ExpressionNode& n) {
       return chosen_of_two(e, n, ExpressionOp::kGreaterEqual);
     }},
    {"if_else", 3, kAnyNumber, chosen},
};

}  // namespace

std::span<const ExpressionFunction> choice_functions() { return kChoiceFunctions; }

}  // namespace data

using data::call_function;

Expression Expression::is_nan() const { return call_function("is_nan", {*this}); }
Expression Expression::is_in(const std::vector<Expression>& constants) const {
  std::vector<Expression> arguments = {*this};
  arguments.insert(arguments.end(), constants.begin(), constants.end());
  return call_function("is_in", arguments);
}
Expression Expression::between(const Expression& low, const Expression& high) const {
  return *this >= low && *this <= high;
}
Expression Expression::fill_null(const Expression& value) const { return coalesce({*this, value}); }
Expression Expression::clip(const Expression& low, const Expression& high) const {
  return min_of(max_of(*this, low), high);
}
Expression min_of(const Expression& a, const Expression& b) {
  return call_function("min_of", {a, b});
}
Expression max_of(const Expression& a, const Expression& b) {
  return call_function("max_of", {a, b});
}
Expression coalesce(const std::vector<Expression>& values) {
  if (values.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "coalesce needs at least one value");
  }
  return call_function("coalesce", values);
}
Expression if_else(const Expression& condition, const Expression& a, const Expression& b) {
  return call_function("if_else", {condition, a, b});
}
When When::when(const Expression& condition, const Expression& value) const {
  When longer = *this;
  longer.arguments_.push_back(condition);
  longer.arguments_.push_back(value);
  return longer;
}
Expression When::otherwise(const Expression& value) const {
  std::vector<Expression> arguments = arguments_;
  arguments.push_back(value);
  return call_function("if_else", arguments);
}
When when(const Expression& condition, const Expression& value) {
  return When().when(condition, value);
}

}  // namespace manta
