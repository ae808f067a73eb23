#include "manta/data/expression.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/json_number_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plan_limits_internal.h"

namespace manta {
namespace data {
namespace {

struct OpName {
  ExpressionOp op;
  const char* name;    // in JSON, and of functions
  const char* symbol;  // between two operands; empty for a function
  size_t arguments;    // at least, of a chain
};

constexpr std::array kOpNames = {
    OpName{ExpressionOp::kAdd, "add", "+", 2},
    OpName{ExpressionOp::kSubtract, "subtract", "-", 2},
    OpName{ExpressionOp::kMultiply, "multiply", "*", 2},
    OpName{ExpressionOp::kDivide, "divide", "/", 2},
    OpName{ExpressionOp::kModulo, "modulo", "%", 2},
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
};

const OpName& name_of(ExpressionOp op) {
  auto found = std::find_if(kOpNames.begin(), kOpNames.end(), [&](auto& n) { return n.op == op; });
  MANTA_CHECK(found != kOpNames.end(), "an expression's operation without a name");
  return *found;
}

// Any number of conditions in one node: a filter by hundreds of values is built in a loop.
bool is_chain(ExpressionOp op) { return op == ExpressionOp::kAnd || op == ExpressionOp::kOr; }

Literal integer_literal(uint64_t value) {
  if (std::in_range<int64_t>(value)) return static_cast<int64_t>(value);
  return value;
}

const char* duration_unit(const DurationLiteral& duration) {
  return duration.per_second == 1         ? "s"
         : duration.per_second == 1000    ? "ms"
         : duration.per_second == 1000000 ? "us"
                                          : "ns";
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
  if (auto* duration = std::get_if<DurationLiteral>(&literal)) {
    return str(duration->count, " ", duration_unit(*duration));
  }
  return str(std::get<int64_t>(literal));
}

std::string operand_text(const ExpressionNode& node) {
  std::string text = to_string(node);
  bool is_infix = node.op != ExpressionOp::kColumn && node.op != ExpressionOp::kLiteral &&
                  node.op != ExpressionOp::kFunction && *name_of(node.op).symbol != 0 &&
                  node.arguments.size() >= 2;
  return is_infix ? "(" + text + ")" : text;
}

std::string to_hex_digits(const std::string& bytes) {
  constexpr const char* kDigits = "0123456789abcdef";
  std::string digits;
  for (unsigned char byte : bytes) {
    digits += kDigits[byte / 16];
    digits += kDigits[byte % 16];
  }
  return digits;
}

std::string bytes_from(const JsonFields& fields) {
  std::string digits = fields.text("bytes", SIZE_MAX), bytes;
  auto value_of = [&](char digit) {
    if (digit >= '0' && digit <= '9') return digit - '0';
    if (digit >= 'a' && digit <= 'f') return digit - 'a' + 10;
    fields.fail("bytes", "pairs of hexadecimal digits");
  };
  if (digits.size() % 2 != 0) fields.fail("bytes", "pairs of hexadecimal digits");
  for (size_t i = 0; i < digits.size(); i += 2) {
    bytes += static_cast<char>(value_of(digits[i]) * 16 + value_of(digits[i + 1]));
  }
  return bytes;
}

// Constants that JSON has no value for are objects: {"double": "inf"}, {"bytes": "ff00"},
// {"duration": 90, "unit": "s"}.
Json literal_to_json(const Literal& literal) {
  auto* number = std::get_if<double>(&literal);
  if (number && !std::isfinite(*number)) return {{"double", encode_number(*number)}};
  auto* text = std::get_if<std::string>(&literal);
  if (text && !is_utf8(*text)) return {{"bytes", to_hex_digits(*text)}};
  if (auto* duration = std::get_if<DurationLiteral>(&literal)) {
    return {{"duration", duration->count}, {"unit", duration_unit(*duration)}};
  }
  return std::visit(
      [](auto& value) -> Json {
        if constexpr (std::is_same_v<std::decay_t<decltype(value)>, DurationLiteral>) {
          return nullptr;
        } else {
          return {{"lit", value}};
        }
      },
      literal);
}

Literal literal_from_json(const JsonFields& fields) {
  if (fields.has("double")) {
    auto number = decode_number(fields.any("double"));
    if (!number || std::isfinite(*number)) fields.fail("double", R"("inf", "-inf" or "nan")");
    return *number;
  }
  if (fields.has("bytes")) return bytes_from(fields);
  if (fields.has("duration")) {
    DurationLiteral duration{fields.integer("duration", INT64_MIN, INT64_MAX), 1};
    std::string unit = fields.text("unit");
    for (int64_t per_second : {1, 1000, 1000000, 1000000000}) {
      duration.per_second = per_second;
      if (unit == duration_unit(duration)) return duration;
    }
    fields.fail("unit", R"("s", "ms", "us" or "ns")");
  }
  const Json& literal = fields.any("lit");
  if (literal.is_boolean()) return literal.get<bool>();
  if (literal.is_number_unsigned()) return integer_literal(literal.get<uint64_t>());
  if (literal.is_number_integer()) return literal.get<int64_t>();
  if (literal.is_number_float()) return literal.get<double>();
  if (!literal.is_string()) fields.fail("lit", "a number, a text, true or false");
  return literal.get<std::string>();
}

using NodePtr = std::shared_ptr<const ExpressionNode>;

NodePtr make_node(ExpressionOp op, const std::vector<NodePtr>& arguments, std::string name = {},
                  const ExpressionFunction* function = nullptr) {
  auto node = std::make_shared<ExpressionNode>();
  node->op = op;
  node->name = std::move(name);
  node->function = function;
  for (const auto& argument : arguments) {
    if (is_chain(op) && argument->op == op) {
      const auto& links = argument->arguments;
      node->arguments.insert(node->arguments.end(), links.begin(), links.end());
    } else {
      node->arguments.push_back(argument);
    }
  }
  for (const auto& argument : node->arguments) {
    node->depth = std::max(node->depth, argument->depth + 1);
  }
  if (node->depth > kMaxExpressionDepth) {
    throw Error(ErrorKind::kInvalidArgument,
                str("an expression with more than ", kMaxExpressionDepth, " operators (here ",
                    function ? function->name : name_of(op).name,
                    ") inside each other; compute parts of it with with_column first"));
  }
  return node;
}

NodePtr make_literal_node(Literal literal) {
  auto node = std::make_shared<ExpressionNode>();
  node->literal = std::move(literal);
  return node;
}

Json node_to_json(const ExpressionNode& node) {
  if (node.op == ExpressionOp::kColumn) return {{"col", node.name}};
  if (node.op == ExpressionOp::kLiteral) return literal_to_json(node.literal);
  Json arguments = Json::array();
  for (const auto& argument : node.arguments) arguments.push_back(node_to_json(*argument));
  const char* name = node.function ? node.function->name : name_of(node.op).name;
  Json json = {{"op", name}, {"args", arguments}};
  if (node.op == ExpressionOp::kCast) json["type"] = node.name;
  return json;
}

NodePtr node_from_json(const Json& json, int depth) {
  JsonFields fields(json, {"the expression", ErrorKind::kInvalidArgument});
  if (fields.has("col")) {
    return make_node(ExpressionOp::kColumn, {}, fields.text("col", kLongestName));
  }
  if (!fields.has("op")) return make_literal_node(literal_from_json(fields));
  std::string op = fields.text("op");
  auto found =
      std::find_if(kOpNames.begin(), kOpNames.end(), [&](auto& n) { return op == n.name; });
  const ExpressionFunction* function = find_function(op);
  if (found == kOpNames.end() && !function) fields.fail("op", "the name of an operator");
  const Json& arguments = fields.array("args");
  size_t least = function ? function->least : found->arguments;
  size_t most = function ? function->most : is_chain(found->op) ? kAnyNumber : found->arguments;
  if (arguments.size() < least || arguments.size() > most) {
    fields.fail("args", str(least, most > least ? " or more" : "", " arguments of ", op));
  }
  // Checked before recursing: the JSON may be deeper than any expression.
  if (depth >= kMaxExpressionDepth) {
    fields.fail("args", str("at most ", kMaxExpressionDepth, " operators inside each other"));
  }
  std::vector<NodePtr> nodes;
  for (const auto& argument : arguments) nodes.push_back(node_from_json(argument, depth + 1));
  if (function) return make_node(ExpressionOp::kFunction, nodes, {}, function);
  return make_node(found->op, nodes,
                   found->op == ExpressionOp::kCast ? fields.text("type") : std::string());
}

Expression make(ExpressionOp op, std::initializer_list<Expression> arguments,
                std::string name = {}) {
  std::vector<NodePtr> nodes;
  for (const auto& argument : arguments) nodes.push_back(argument.shared_node());
  return Expression(make_node(op, nodes, std::move(name)));
}

Expression make_literal(Literal literal) {
  return Expression(make_literal_node(std::move(literal)));
}

}  // namespace

Expression call_function(const char* name, const std::vector<Expression>& arguments) {
  const ExpressionFunction* function = find_function(name);
  MANTA_CHECK(function, "an expression calls a function that no table has");
  std::vector<NodePtr> nodes;
  for (const auto& argument : arguments) nodes.push_back(argument.shared_node());
  return Expression(make_node(ExpressionOp::kFunction, nodes, {}, function));
}

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
  if (node.op == ExpressionOp::kFunction) {
    std::string text;
    for (const auto& argument : node.arguments) {
      text += (text.empty() ? "" : ", ") + to_string(*argument);
    }
    return str(node.function->name, "(", text, ")");
  }
  const OpName& op = name_of(node.op);
  if (*op.symbol != 0 && op.arguments == 1) return op.symbol + operand_text(*node.arguments[0]);
  if (*op.symbol != 0) {
    std::string text = operand_text(*node.arguments[0]);
    for (size_t i = 1; i < node.arguments.size(); ++i) {
      text += str(" ", op.symbol, " ", operand_text(*node.arguments[i]));
    }
    return text;
  }
  std::string text = str(op.name, "(", to_string(*node.arguments[0]));
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
Expression Expression::of_duration(int64_t count, int64_t numerator, int64_t denominator) {
  data::DurationLiteral literal;
  while (literal.per_second % denominator != 0) literal.per_second *= 1000;
  if (__builtin_mul_overflow(count, numerator * (literal.per_second / denominator),
                             &literal.count)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("a duration of ", count, " times ", numerator, "/", denominator,
                    " seconds does not fit into 64 bits"));
  }
  return data::make_literal(literal);
}
Expression Expression::of_bool(bool value) { return data::make_literal(value); }

Expression Expression::is_null() const { return make(ExpressionOp::kIsNull, {*this}); }
Expression Expression::is_valid() const { return make(ExpressionOp::kIsValid, {*this}); }
Expression Expression::cast(const std::string& type) const {
  return make(ExpressionOp::kCast, {*this}, type);
}
std::string Expression::to_string() const { return data::to_string(*node_); }
Json Expression::to_json() const { return data::node_to_json(*node_); }
Expression Expression::from_json(const Json& json) {
  return Expression(data::node_from_json(json, 1));
}

using E = Expression;
E operator+(const E& a, const E& b) { return make(ExpressionOp::kAdd, {a, b}); }
E operator-(const E& a, const E& b) { return make(ExpressionOp::kSubtract, {a, b}); }
E operator*(const E& a, const E& b) { return make(ExpressionOp::kMultiply, {a, b}); }
E operator/(const E& a, const E& b) { return make(ExpressionOp::kDivide, {a, b}); }
E operator%(const E& a, const E& b) { return make(ExpressionOp::kModulo, {a, b}); }
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

}  // namespace manta
