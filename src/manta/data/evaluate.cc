#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>

#include "manta/base/error_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/evaluator_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/float_overflow_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;

bool is_text_constant(const Datum& value) {
  return value.is_scalar() && value.type()->id() == Type::STRING;
}

bool is_any_time(const arrow::DataType& type) {
  Meaning meaning = meaning_of(type);
  return meaning == Meaning::kLocalTime || meaning == Meaning::kInstant ||
         meaning == Meaning::kTimeOfDay;
}

arrow::TimeUnit::type unit_of_literal(const DurationLiteral& literal) {
  return literal.per_second == 1         ? arrow::TimeUnit::SECOND
         : literal.per_second == 1000    ? arrow::TimeUnit::MILLI
         : literal.per_second == 1000000 ? arrow::TimeUnit::MICRO
                                         : arrow::TimeUnit::NANO;
}

// A constant as a column of one row.
std::shared_ptr<arrow::Array> as_row(const Datum& value) {
  return value.is_array() ? value.make_array()
                          : check(arrow::MakeArrayFromScalar(*value.scalar(), 1), "a constant");
}

}  // namespace

Datum literal_value(const Literal& literal) {
  if (auto* duration = std::get_if<DurationLiteral>(&literal)) {
    return Datum(std::make_shared<arrow::DurationScalar>(
        duration->count, arrow::duration(unit_of_literal(*duration))));
  }
  return std::visit(
      [](const auto& value) {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, DurationLiteral>) {
          return Datum();
        } else {
          return Datum(value);
        }
      },
      literal);
}

Datum Evaluator::value(const ExpressionNode& node) {
  switch (node.op) {
    case ExpressionOp::kColumn:
      return column(node.name);
    case ExpressionOp::kLiteral:
      return literal_value(node.literal);
    case ExpressionOp::kFunction:
      return node.function->evaluate(*this, node);
    case ExpressionOp::kIsNull:
      return call("is_null", {operand(node, 0)});
    case ExpressionOp::kIsValid:
      return call("is_valid", {operand(node, 0)});
    case ExpressionOp::kCast:
      return cast(operand(node, 0), type_by_name(node.name, str("cast to '", node.name, "'")));
    case ExpressionOp::kNot:
      return inverted(node);
    case ExpressionOp::kAnd:
    case ExpressionOp::kOr:
      return chain(node);
    case ExpressionOp::kAdd:
    case ExpressionOp::kSubtract:
    case ExpressionOp::kMultiply:
    case ExpressionOp::kDivide:
    case ExpressionOp::kModulo:
    case ExpressionOp::kNegate:
      return arithmetic(*this, node);
    default:
      return comparison(node);
  }
}

Datum Evaluator::column(const std::string& name) {
  auto* found = piece_.find(name);
  if (found) return *found;
  throw Error(ErrorKind::kNotFound,
              str("in ", expression_.to_string(), ": ", no_such_column(name, piece_.names)));
}

Datum Evaluator::operand(const ExpressionNode& node, size_t index) {
  Datum result = value(*node.arguments[index]);
  return result.is_array() ? Datum(plain_column(result.make_array())) : result;
}

void Evaluator::fail_status(const arrow::Status& status) const {
  check(status, "computing " + expression_.to_string());
  MANTA_CHECK(false, "a failed status that is none");
}

void Evaluator::fail(const std::string& what) const {
  throw Error(ErrorKind::kInvalidArgument, str("in ", expression_.to_string(), ": ", what));
}

void Evaluator::throw_types(const ExpressionNode& node, const std::string& hint) {
  std::string operands;
  for (const auto& argument : node.arguments) {
    if (!operands.empty()) operands += " and ";
    bool is_column = argument->op == ExpressionOp::kColumn;
    operands += str(is_column ? "column '" : "'", to_string(*argument), "' of type ",
                    value(*argument).type()->ToString());
  }
  fail(str("cannot compute ", to_string(node), " with ", operands, "; ", hint));
}

Datum Evaluator::call(const char* function, const std::vector<Datum>& arguments,
                      const cp::FunctionOptions* options) {
  return get(cp::CallFunction(function, arguments, options));
}

Datum Evaluator::cast(const Datum& value, const std::shared_ptr<arrow::DataType>& type) {
  if (value.type()->Equals(*type)) return value;
  Datum made = get(cp::Cast(value, type, cp::CastOptions::Safe()));
  // Arrow rounds numbers that are too large to infinity, even in a safe cast.
  if (arrow::is_floating(type->id())) {
    if (auto refused = first_overflow(as_row(value), as_row(made))) {
      fail(str("the value ", *refused, " is too large for type ", type->ToString()));
    }
  }
  return made;
}

Datum Evaluator::promote(const Datum& value, const std::shared_ptr<arrow::DataType>& type) {
  if (value.type()->Equals(*type)) return value;
  return get(cp::Cast(value, type, cp::CastOptions::Unsafe()));
}

std::shared_ptr<arrow::Array> Evaluator::as_array(const Datum& value) {
  if (value.is_array()) return value.make_array();
  return get(arrow::MakeArrayFromScalar(*value.scalar(), piece_.rows));
}

Datum Evaluator::inverted(const ExpressionNode& node) {
  Datum condition = operand(node, 0);
  if (condition.type()->id() != Type::BOOL) throw_types(node, "'!' needs a condition");
  return call("invert", {condition});
}

Datum Evaluator::chain(const ExpressionNode& node) {
  Datum result = operand(node, 0);
  for (size_t i = 1; i < node.arguments.size(); ++i) {
    Datum next = operand(node, i);
    if (result.type()->id() == Type::NA) result = promote(result, next.type());
    if (next.type()->id() == Type::NA) next = promote(next, result.type());
    if (result.type()->id() != Type::BOOL || next.type()->id() != Type::BOOL) {
      throw_types(node, "all sides must be conditions");
    }
    result = call(node.op == ExpressionOp::kAnd ? "and_kleene" : "or_kleene", {result, next});
  }
  return result;
}

Datum Evaluator::time_from_text(const Datum& text, const arrow::DataType& beside) {
  using arrow::TimeUnit;
  if (meaning_of(beside) == Meaning::kTimeOfDay) {
    auto parsed = text.scalar()->CastTo(arrow::time64(TimeUnit::NANO));
    if (parsed.ok()) return *parsed;
  } else {
    bool is_timestamp = beside.id() == Type::TIMESTAMP;
    std::string zone =
        is_timestamp ? static_cast<const arrow::TimestampType&>(beside).timezone() : "";
    // Takes the finest unit that holds it: a constant must not lose digits that matter. Cast checks
    // for an offset that is missing, or should not be there; Scalar::CastTo does not.
    for (auto unit : {TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::MILLI, TimeUnit::SECOND}) {
      auto parsed = cp::Cast(text, arrow::timestamp(unit, zone));
      if (parsed.ok()) return *parsed;
    }
  }
  fail(str("'", text.scalar()->ToString(), "' cannot be read as a ", beside.ToString(),
           "; write times as 2020-01-31 or 2020-01-31 08:30:00 (with an offset such as +00:00 if "
           "the column has a time zone), and times of day as 08:30:00"));
}

Datum Evaluator::as_time_beside(const Datum& value, const arrow::DataType& beside) {
  if (!is_text_constant(value) || !is_any_time(beside)) return value;
  return time_from_text(value, beside);
}

Datum Evaluator::comparison(const ExpressionNode& node) {
  Datum a = operand(node, 0), b = operand(node, 1);
  b = as_time_beside(b, *a.type());
  a = as_time_beside(a, *b.type());
  if (auto result = compare(node.op, a, b)) return *result;
  require_same_zones(*this, node, *a.type(), *b.type());
  throw_types(node, "compare numbers with numbers, texts with texts and times with times");
}

void require_same_zones(Evaluator& evaluator, const ExpressionNode& node,
                        const arrow::DataType& left, const arrow::DataType& right) {
  Meaning a = meaning_of(left), b = meaning_of(right);
  if ((a == Meaning::kLocalTime && b == Meaning::kInstant) ||
      (a == Meaning::kInstant && b == Meaning::kLocalTime)) {
    evaluator.throw_types(node,
                          "one side has a time zone and the other has none: convert one of them");
  }
}

bool is_time_or_date(const arrow::DataType& type) {
  return type.id() == Type::TIMESTAMP || arrow::is_date(type.id());
}

void start_compute() {
  static const arrow::Status initialized = cp::Initialize();
  check(initialized, "starting Arrow's compute functions");
}

std::shared_ptr<arrow::Array> evaluate(const Expression& expression, const Piece& piece) {
  start_compute();
  Evaluator evaluator(expression, piece);
  return evaluator.as_array(evaluator.value(expression.node()));
}

}  // namespace manta::data
