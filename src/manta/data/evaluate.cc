#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>

#include <algorithm>
#include <map>
#include <string_view>
#include <unordered_set>

#include "manta/base/error_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/time_parts_internal.h"
#include "manta/data/validity_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;

bool is_number(const arrow::DataType& type) { return meaning_of(type) == Meaning::kNumber; }
bool is_time(const arrow::DataType& type) {
  return type.id() == Type::TIMESTAMP || arrow::is_date(type.id());
}

const char* arrow_function(ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kAdd:
      return "add";
    case ExpressionOp::kSubtract:
      return "subtract";
    case ExpressionOp::kMultiply:
      return "multiply";
    case ExpressionOp::kDivide:
      return "divide";
    case ExpressionOp::kNegate:
      return "negate";
    case ExpressionOp::kAnd:
      return "and_kleene";
    case ExpressionOp::kOr:
      return "or_kleene";
    case ExpressionOp::kIsNull:
      return "is_null";
    case ExpressionOp::kIsValid:
      return "is_valid";
    case ExpressionOp::kHour:
      return "hour";
    default:
      MANTA_CHECK(op == ExpressionOp::kDayOfWeek, "an operation that is no function of Arrow's");
      return "day_of_week";
  }
}

std::shared_ptr<arrow::DataType> type_by_name(const std::string& name) {
  static const std::map<std::string, std::shared_ptr<arrow::DataType>> types = {
      {"bool", arrow::boolean()},    {"int8", arrow::int8()},       {"int16", arrow::int16()},
      {"int32", arrow::int32()},     {"int64", arrow::int64()},     {"uint8", arrow::uint8()},
      {"uint16", arrow::uint16()},   {"uint32", arrow::uint32()},   {"uint64", arrow::uint64()},
      {"float32", arrow::float32()}, {"float64", arrow::float64()}, {"string", arrow::utf8()}};
  auto found = types.find(name);
  if (found == types.end()) {
    std::string known;
    for (const auto& [type, unused] : types) known += (known.empty() ? "" : ", ") + type;
    throw Error(ErrorKind::kInvalidArgument,
                str("cast to '", name, "': no such type; there are ", known));
  }
  return found->second;
}

class Evaluator {
 public:
  Evaluator(const Expression& expression, const Piece& piece)
      : expression_(expression), piece_(piece) {}

  Datum value(const ExpressionNode& node) {
    switch (node.op) {
      case ExpressionOp::kColumn:
        return column(node.name);
      case ExpressionOp::kLiteral:
        return std::visit([](const auto& value) { return Datum(value); }, node.literal);
      case ExpressionOp::kIsNull:
      case ExpressionOp::kIsValid:
        return call(arrow_function(node.op), {operand(node, 0)});
      case ExpressionOp::kCast:
        return as_type(operand(node, 0), type_by_name(node.name), cp::CastOptions::Safe());
      case ExpressionOp::kNegate:
        return negative(node, operand(node, 0));
      case ExpressionOp::kNot:
        return inverted(node, operand(node, 0));
      case ExpressionOp::kHour:
      case ExpressionOp::kDayOfWeek:
        return time_part(node, operand(node, 0));
      case ExpressionOp::kSecondsBetween:
        return seconds(node, operand(node, 0), operand(node, 1));
      case ExpressionOp::kAnd:
      case ExpressionOp::kOr:
        return chain(node);
      case ExpressionOp::kAdd:
      case ExpressionOp::kSubtract:
      case ExpressionOp::kMultiply:
      case ExpressionOp::kDivide:
        return arithmetic(node, operand(node, 0), operand(node, 1));
      default:
        return comparison(node, operand(node, 0), operand(node, 1));
    }
  }

 private:
  Datum column(const std::string& name) {
    auto* found = piece_.find(name);
    if (found) return *found;
    throw Error(ErrorKind::kNotFound,
                str("in ", expression_.to_string(), ": ", no_such_column(name, piece_.names)));
  }

  // An argument as the kernels want it: with encodings written out.
  Datum operand(const ExpressionNode& node, size_t index) {
    Datum result = value(*node.arguments[index]);
    return result.is_array() ? Datum(plain_column(result.make_array())) : result;
  }

  // The text of a long expression takes longer than computing it: only for errors.
  template <class T>
  T get(arrow::Result<T> result) const {
    if (!result.ok()) check(result.status(), "computing " + expression_.to_string());
    return std::move(result).ValueUnsafe();
  }

  Datum call(const char* function, std::vector<Datum> arguments) {
    return get(cp::CallFunction(function, arguments));
  }

  Datum as_type(const Datum& value, const std::shared_ptr<arrow::DataType>& type,
                const cp::CastOptions& options) {
    if (value.type()->Equals(*type)) return value;
    return get(cp::Cast(value, type, options));
  }
  Datum promote(const Datum& value, const std::shared_ptr<arrow::DataType>& type) {
    return as_type(value, type, cp::CastOptions::Unsafe());
  }

  [[noreturn]] void throw_types(const ExpressionNode& node, const std::string& hint) {
    std::string operands;
    for (const auto& argument : node.arguments) {
      if (!operands.empty()) operands += " and ";
      bool is_column = argument->op == ExpressionOp::kColumn;
      operands += str(is_column ? "column '" : "'", to_string(*argument), "' of type ",
                      value(*argument).type()->ToString());
    }
    throw Error(ErrorKind::kInvalidArgument,
                str("in ", expression_.to_string(), ": cannot compute ", to_string(node), " with ",
                    operands, "; ", hint));
  }

  Datum inverted(const ExpressionNode& node, const Datum& a) {
    if (a.type()->id() != Type::BOOL) throw_types(node, "'!' needs a condition");
    return call("invert", {a});
  }

  Datum chain(const ExpressionNode& node) {
    Datum result = operand(node, 0);
    for (size_t i = 1; i < node.arguments.size(); ++i) {
      result = logical(node, std::move(result), operand(node, i));
    }
    return result;
  }

  Datum logical(const ExpressionNode& node, Datum a, Datum b) {
    if (a.type()->id() == Type::NA) a = promote(a, b.type());
    if (b.type()->id() == Type::NA) b = promote(b, a.type());
    if (a.type()->id() != Type::BOOL || b.type()->id() != Type::BOOL) {
      throw_types(node, "all sides must be conditions");
    }
    return call(arrow_function(node.op), {a, b});
  }

  Datum negative(const ExpressionNode& node, const Datum& a) {
    if (!is_number(*a.type())) throw_types(node, "'-' needs a number");
    if (arrow::is_integer(a.type()->id())) return call_on_integers(node, {a});
    return call(arrow_function(node.op), {promote(a, arrow::float64())});
  }

  Datum arithmetic(const ExpressionNode& node, Datum a, Datum b) {
    if (a.type()->id() == Type::NA) a = promote(a, b.type());
    if (b.type()->id() == Type::NA) b = promote(b, a.type());
    if (!is_number(*a.type()) || !is_number(*b.type())) {
      throw_types(node, "both sides must be numbers (see cast)");
    }
    bool integers = arrow::is_integer(a.type()->id()) && arrow::is_integer(b.type()->id());
    if (integers && node.op != ExpressionOp::kDivide) return call_on_integers(node, {a, b});
    return call(arrow_function(node.op),
                {promote(a, arrow::float64()), promote(b, arrow::float64())});
  }

  // In int64: a number that does not fit is an error.
  Datum call_on_integers(const ExpressionNode& node, std::vector<Datum> arguments) {
    std::string why;
    for (auto& argument : arguments) {
      auto wide = cp::Cast(argument, arrow::int64());
      if (!wide.ok()) why = wide.status().message();
      if (wide.ok()) argument = *wide;
    }
    if (why.empty()) {
      auto result = cp::CallFunction(str(arrow_function(node.op), "_checked"), arguments);
      if (result.ok()) return *result;
      why = result.status().message();
    }
    throw Error(
        ErrorKind::kInvalidArgument,
        str("in ", expression_.to_string(), ": ", to_string(node), " does not fit into an int64 (",
            why, "); for a rounded result, multiply one side by 1.0"));
  }

  // A constant beside a time is a time written as text.
  Datum time_from_text(const Datum& text, const arrow::DataType& beside) {
    using arrow::TimeUnit;
    if (meaning_of(beside) == Meaning::kTimeOfDay) {
      auto parsed = text.scalar()->CastTo(arrow::time64(TimeUnit::NANO));
      if (parsed.ok()) return *parsed;
    } else {
      bool is_timestamp = beside.id() == Type::TIMESTAMP;
      std::string zone =
          is_timestamp ? static_cast<const arrow::TimestampType&>(beside).timezone() : "";
      // The finest unit that holds it: a constant must not lose digits that decide. Cast looks at
      // an offset that is missing, or one too many; Scalar::CastTo does not.
      for (auto unit : {TimeUnit::NANO, TimeUnit::MICRO, TimeUnit::MILLI, TimeUnit::SECOND}) {
        auto parsed = cp::Cast(text, arrow::timestamp(unit, zone));
        if (parsed.ok()) return *parsed;
      }
    }
    throw Error(
        ErrorKind::kInvalidArgument,
        str("in ", expression_.to_string(), ": '", text.scalar()->ToString(),
            "' cannot be read as a ", beside.ToString(),
            "; write times as 2020-01-31 or 2020-01-31 08:30:00 (with an offset such as +00:00 if "
            "the column has a time zone), and times of day as 08:30:00"));
  }

  static bool is_text_constant(const Datum& value) {
    return value.is_scalar() && value.type()->id() == Type::STRING;
  }
  static bool is_any_time(const Datum& value) {
    Meaning meaning = meaning_of(*value.type());
    return meaning == Meaning::kLocalTime || meaning == Meaning::kInstant ||
           meaning == Meaning::kTimeOfDay;
  }

  Datum comparison(const ExpressionNode& node, Datum a, Datum b) {
    if (is_any_time(a) && is_text_constant(b)) b = time_from_text(b, *a.type());
    if (is_any_time(b) && is_text_constant(a)) a = time_from_text(a, *b.type());
    if (auto result = compare(node.op, a, b)) return *result;
    require_same_zones(node, a, b);
    throw_types(node, "compare numbers with numbers, texts with texts and times with times");
  }

  void require_same_zones(const ExpressionNode& node, const Datum& a, const Datum& b) {
    Meaning left = meaning_of(*a.type()), right = meaning_of(*b.type());
    if ((left == Meaning::kLocalTime && right == Meaning::kInstant) ||
        (left == Meaning::kInstant && right == Meaning::kLocalTime)) {
      throw_types(node, "one side has a time zone and the other has none: convert one of them");
    }
  }

  std::shared_ptr<arrow::Array> as_array(const Datum& value) {
    if (value.is_array()) return value.make_array();
    return get(arrow::MakeArrayFromScalar(*value.scalar(), piece_.rows));
  }

  // As timestamps; days begin at their midnight.
  std::shared_ptr<arrow::Array> as_times(const ExpressionNode& node, const Datum& value) {
    if (!is_time(*value.type())) throw_types(node, "it needs timestamps");
    if (value.type()->id() == Type::TIMESTAMP) return as_array(value);
    return as_array(promote(value, arrow::timestamp(arrow::TimeUnit::MILLI)));
  }

  static int64_t units_per_second(const arrow::Array& times) {
    return per_second(static_cast<const arrow::TimestampType&>(*times.type()).unit());
  }
  static const int64_t* raw(const arrow::Array& times) {
    return static_cast<const arrow::TimestampArray&>(times).raw_values();
  }

  // An int32 column that is null where one of the two is.
  template <class Fill>
  Datum make_int32(const arrow::Array& a, const arrow::Array& b, Fill&& fill) {
    auto values = get(arrow::AllocateBuffer(a.length() * 4));
    fill(reinterpret_cast<int32_t*>(values->mutable_data()));
    auto valid = valid_in_both(a, b);
    int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
    return Datum(arrow::ArrayData::Make(
        arrow::int32(), a.length(),
        {std::move(valid), std::shared_ptr<arrow::Buffer>(std::move(values))}, nulls));
  }

  Datum time_part(const ExpressionNode& node, const Datum& time) {
    auto times = as_times(node, time);
    if (!static_cast<const arrow::TimestampType&>(*times->type()).timezone().empty()) {
      return promote(call(arrow_function(node.op), {times}), arrow::int32());
    }
    auto part = node.op == ExpressionOp::kHour ? hours_of_day : days_of_week;
    return make_int32(*times, *times, [&](int32_t* out) {
      part(raw(*times), times->length(), units_per_second(*times), out);
    });
  }

  Datum seconds(const ExpressionNode& node, const Datum& from, const Datum& to) {
    auto begin = as_times(node, from), end = as_times(node, to);
    require_same_zones(node, begin, end);
    return make_int32(*begin, *end, [&](int32_t* out) {
      seconds_of_difference(raw(*begin), units_per_second(*begin), raw(*end),
                            units_per_second(*end), begin->length(), out);
    });
  }

  const Expression& expression_;
  const Piece& piece_;
};

}  // namespace

std::string no_such_column(const std::string& name, const std::vector<std::string>& there) {
  std::string list;
  for (const auto& column : there) list += (list.empty() ? "'" : ", '") + column + "'";
  return str("there is no column '", name, "'; there ", there.size() == 1 ? "is " : "are ",
             list.empty() ? "none" : list);
}

void require_distinct(const std::vector<std::string>& names, const std::string& doing) {
  std::unordered_set<std::string_view> seen;
  for (const auto& name : names) {
    if (!seen.insert(name).second) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", doing, ": column '", name, "' is named twice"));
    }
  }
}

void start_compute() {
  static const arrow::Status initialized = cp::Initialize();
  check(initialized, "starting Arrow's compute functions");
}

std::shared_ptr<arrow::Array> evaluate(const Expression& expression, const Piece& piece) {
  start_compute();
  Datum value = Evaluator(expression, piece).value(expression.node());
  if (value.is_array()) return value.make_array();
  return check(arrow::MakeArrayFromScalar(*value.scalar(), piece.rows),
               "computing " + expression.to_string());
}

}  // namespace manta::data
