#include "manta/data/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "manta/base/error.h"
#include "manta/data/expression_internal.h"

namespace manta {
namespace data {
namespace {

struct OpName {
  ExpressionOp op;
  const char* name;    // in JSON, and of functions
  const char* symbol;  // between two operands; empty for a function
  size_t arguments;
};

constexpr std::array kOpNames = {
    OpName{ExpressionOp::kAdd, "add", "+", 2},
    OpName{ExpressionOp::kSubtract, "subtract", "-", 2},
    OpName{ExpressionOp::kMultiply, "multiply", "*", 2},
    OpName{ExpressionOp::kDivide, "divide", "/", 2},
    OpName{ExpressionOp::kNegate, "negate", "-", 1},
    OpName{ExpressionOp::kEqual, "equal", "==", 2},
    OpName{ExpressionOp::kNotEqual, "not_equal", "!=", 2},
    OpName{ExpressionOp::kLess, "less", "<", 2},
    OpName{ExpressionOp::kLessEqual, "less_equal", "<=", 2},
    OpName{ExpressionOp::kGreater, "greater", ">", 2},
    OpName{ExpressionOp::kGreaterEqual, "greater_equal", ">=", 2},
    OpName{ExpressionOp::kAnd, "and", "&&", 2},
    OpName{ExpressionOp::kOr, "or", "||", 2},
    OpName{ExpressionOp::kNot, "not", "!", 1},
    OpName{ExpressionOp::kIsNull, "is_null", "", 1},
    OpName{ExpressionOp::kIsValid, "is_valid", "", 1},
    OpName{ExpressionOp::kCast, "cast", "", 1},
    OpName{ExpressionOp::kSecondsBetween, "seconds_between", "", 2},
    OpName{ExpressionOp::kHour, "hour", "", 1},
    OpName{ExpressionOp::kDayOfWeek, "day_of_week", "", 1},
};

const OpName& name_of(ExpressionOp op) {
  auto found = std::find_if(kOpNames.begin(), kOpNames.end(), [&](auto& n) { return n.op == op; });
  MANTA_CHECK(found != kOpNames.end(), "an expression's operation without a name");
  return *found;
}

Literal integer_literal(uint64_t value) {
  if (std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
  return value;
}

std::string literal_text(const Literal& literal) {
  if (auto* text = std::get_if<std::string>(&literal)) {
    return Json(*text).dump(-1, ' ', false, Json::error_handler_t::replace);
  }
  if (auto* number = std::get_if<double>(&literal)) {
    return std::isfinite(*number) ? Json(*number).dump() : str(*number);
  }
  if (auto* flag = std::get_if<bool>(&literal)) return *flag ? "true" : "false";
  if (auto* number = std::get_if<uint64_t>(&literal)) return str(*number);
  return str(std::get<int64_t>(literal));
}

std::string operand_text(const ExpressionNode& node) {
  std::string text = to_string(node);
  bool is_infix = node.op != ExpressionOp::kColumn && node.op != ExpressionOp::kLiteral &&
                  *name_of(node.op).symbol != 0 && node.arguments.size() == 2;
  return is_infix ? "(" + text + ")" : text;
}

Json node_to_json(const ExpressionNode& node) {
  if (node.op == ExpressionOp::kColumn) return {{"col", node.name}};
  if (node.op == ExpressionOp::kLiteral) {
    auto* number = std::get_if<double>(&node.literal);
    // JSON has no numbers for these.
    if (number && !std::isfinite(*number)) return {{"double", str(*number)}};
    return std::visit([](auto& value) { return Json{{"lit", value}}; }, node.literal);
  }
  Json arguments = Json::array();
  for (const auto& argument : node.arguments) arguments.push_back(node_to_json(*argument));
  Json json = {{"op", name_of(node.op).name}, {"args", arguments}};
  if (node.op == ExpressionOp::kCast) json["type"] = node.name;
  return json;
}

[[noreturn]] void throw_not_an_expression(const Json& json) {
  throw Error(ErrorKind::kInvalidArgument,
              str("not an expression as Expression::to_json writes it: ",
                  json.dump(-1, ' ', false, Json::error_handler_t::replace)));
}

std::shared_ptr<const ExpressionNode> node_from_json(const Json& json, int depth) {
  if (!json.is_object() || depth > 1000) throw_not_an_expression(json);
  auto node = std::make_shared<ExpressionNode>();
  if (auto column = json.find("col"); column != json.end() && column->is_string()) {
    node->op = ExpressionOp::kColumn;
    node->name = *column;
    return node;
  }
  if (auto literal = json.find("lit"); literal != json.end()) {
    if (literal->is_boolean()) {
      node->literal = literal->get<bool>();
    } else if (literal->is_number_unsigned()) {
      node->literal = integer_literal(literal->get<uint64_t>());
    } else if (literal->is_number_integer()) {
      node->literal = literal->get<int64_t>();
    } else if (literal->is_number_float()) {
      node->literal = literal->get<double>();
    } else if (literal->is_string()) {
      node->literal = literal->get<std::string>();
    } else {
      throw_not_an_expression(json);
    }
    return node;
  }
  if (auto number = json.find("double"); number != json.end() && number->is_string()) {
    node->literal = std::strtod(number->get<std::string>().c_str(), nullptr);
    return node;
  }
  auto op = json.find("op");
  auto arguments = json.find("args");
  if (op == json.end() || arguments == json.end() || !arguments->is_array()) {
    throw_not_an_expression(json);
  }
  auto found =
      std::find_if(kOpNames.begin(), kOpNames.end(), [&](auto& n) { return *op == n.name; });
  if (found == kOpNames.end() || arguments->size() != found->arguments) {
    throw_not_an_expression(json);
  }
  node->op = found->op;
  if (node->op == ExpressionOp::kCast) node->name = json.value("type", "");
  for (const auto& argument : *arguments) {
    node->arguments.push_back(node_from_json(argument, depth + 1));
  }
  return node;
}

Expression make(ExpressionOp op, std::initializer_list<Expression> arguments,
                std::string name = {}) {
  auto node = std::make_shared<ExpressionNode>();
  node->op = op;
  node->name = std::move(name);
  for (const auto& argument : arguments) node->arguments.push_back(argument.shared_node());
  return Expression(std::shared_ptr<const ExpressionNode>(std::move(node)));
}

Expression make_literal(Literal literal) {
  auto node = std::make_shared<ExpressionNode>();
  node->literal = std::move(literal);
  return Expression(std::shared_ptr<const ExpressionNode>(std::move(node)));
}

}  // namespace

void collect_columns(const ExpressionNode& node, std::vector<std::string>& names) {
  if (node.op == ExpressionOp::kColumn &&
      std::find(names.begin(), names.end(), node.name) == names.end()) {
    names.push_back(node.name);
  }
  for (const auto& argument : node.arguments) collect_columns(*argument, names);
}

std::string to_string(const ExpressionNode& node) {
  if (node.op == ExpressionOp::kColumn) return node.name;
  if (node.op == ExpressionOp::kLiteral) return literal_text(node.literal);
  const OpName& op = name_of(node.op);
  if (*op.symbol != 0 && op.arguments == 1) return op.symbol + operand_text(*node.arguments[0]);
  if (*op.symbol != 0) {
    return str(operand_text(*node.arguments[0]), " ", op.symbol, " ",
               operand_text(*node.arguments[1]));
  }
  std::string text = str(op.name, "(", to_string(*node.arguments[0]));
  if (op.arguments == 2) text += ", " + to_string(*node.arguments[1]);
  if (node.op == ExpressionOp::kCast) text += ", " + node.name;
  return text + ")";
}

}  // namespace data

using data::ExpressionOp;
using data::make;

Expression::Expression(std::shared_ptr<const data::ExpressionNode> node) : node_(std::move(node)) {}
Expression::Expression(const char* text) : Expression(std::string(text)) {}
Expression::Expression(const std::string& text) { *this = data::make_literal(text); }
Expression Expression::of_int(int64_t value) { return data::make_literal(value); }
Expression Expression::of_unsigned(uint64_t value) {
  return data::make_literal(data::integer_literal(value));
}
Expression Expression::of_double(double value) { return data::make_literal(value); }
Expression Expression::of_bool(bool value) { return data::make_literal(value); }

Expression Expression::is_null() const { return make(ExpressionOp::kIsNull, {*this}); }
Expression Expression::is_valid() const { return make(ExpressionOp::kIsValid, {*this}); }
Expression Expression::cast(const std::string& type) const {
  return make(ExpressionOp::kCast, {*this}, type);
}
std::string Expression::to_string() const { return data::to_string(*node_); }
Json Expression::to_json() const { return data::node_to_json(*node_); }
Expression Expression::from_json(const Json& json) {
  return Expression(data::node_from_json(json, 0));
}

using E = Expression;
E operator+(const E& a, const E& b) { return make(ExpressionOp::kAdd, {a, b}); }
E operator-(const E& a, const E& b) { return make(ExpressionOp::kSubtract, {a, b}); }
E operator*(const E& a, const E& b) { return make(ExpressionOp::kMultiply, {a, b}); }
E operator/(const E& a, const E& b) { return make(ExpressionOp::kDivide, {a, b}); }
E operator-(const E& a) { return make(ExpressionOp::kNegate, {a}); }
E operator==(const E& a, const E& b) { return make(ExpressionOp::kEqual, {a, b}); }
E operator!=(const E& a, const E& b) { return make(ExpressionOp::kNotEqual, {a, b}); }
E operator<(const E& a, const E& b) { return make(ExpressionOp::kLess, {a, b}); }
E operator<=(const E& a, const E& b) { return make(ExpressionOp::kLessEqual, {a, b}); }
E operator>(const E& a, const E& b) { return make(ExpressionOp::kGreater, {a, b}); }
E operator>=(const E& a, const E& b) { return make(ExpressionOp::kGreaterEqual, {a, b}); }
E operator&&(const E& a, const E& b) { return make(ExpressionOp::kAnd, {a, b}); }
E operator||(const E& a, const E& b) { return make(ExpressionOp::kOr, {a, b}); }
E operator!(const E& a) { return make(ExpressionOp::kNot, {a}); }

Expression col(const std::string& name) { return make(ExpressionOp::kColumn, {}, name); }
Expression lit(const Expression& value) { return value; }
Expression seconds_between(const Expression& begin, const Expression& end) {
  return make(ExpressionOp::kSecondsBetween, {begin, end});
}
Expression hour(const Expression& time) { return make(ExpressionOp::kHour, {time}); }
Expression day_of_week(const Expression& time) { return make(ExpressionOp::kDayOfWeek, {time}); }

}  // namespace manta
