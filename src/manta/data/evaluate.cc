#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/compute/initialize.h>
#include <arrow/util/bitmap_ops.h>

#include <algorithm>
#include <map>

#include "manta/base/error.h"
#include "manta/data/expression_internal.h"
#include "manta/data/time_parts_internal.h"
#include "manta/io/arrow_status.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;

bool is_number(const arrow::DataType& type) {
  return arrow::is_integer(type.id()) || arrow::is_floating(type.id()) ||
         arrow::is_decimal(type.id());
}
bool is_text(const arrow::DataType& type) {
  return type.id() == Type::STRING || type.id() == Type::LARGE_STRING;
}
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
    case ExpressionOp::kEqual:
      return "equal";
    case ExpressionOp::kNotEqual:
      return "not_equal";
    case ExpressionOp::kLess:
      return "less";
    case ExpressionOp::kLessEqual:
      return "less_equal";
    case ExpressionOp::kGreater:
      return "greater";
    case ExpressionOp::kGreaterEqual:
      return "greater_equal";
    case ExpressionOp::kAnd:
      return "and_kleene";
    case ExpressionOp::kOr:
      return "or_kleene";
    case ExpressionOp::kNot:
      return "invert";
    case ExpressionOp::kIsNull:
      return "is_null";
    case ExpressionOp::kIsValid:
      return "is_valid";
    case ExpressionOp::kHour:
      return "hour";
    default:
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
        return literal(node.literal);
      case ExpressionOp::kIsNull:
      case ExpressionOp::kIsValid:
        return call(arrow_function(node.op), {value(*node.arguments[0])});
      case ExpressionOp::kCast:
        return as_type(value(*node.arguments[0]), type_by_name(node.name), cp::CastOptions::Safe());
      case ExpressionOp::kNegate:
      case ExpressionOp::kNot:
        return unary(node, value(*node.arguments[0]));
      case ExpressionOp::kHour:
      case ExpressionOp::kDayOfWeek:
        return time_part(node, value(*node.arguments[0]));
      case ExpressionOp::kSecondsBetween:
        return seconds(node, value(*node.arguments[0]), value(*node.arguments[1]));
      default:
        return binary(node, value(*node.arguments[0]), value(*node.arguments[1]));
    }
  }

 private:
  Datum column(const std::string& name) {
    auto* found = piece_.find(name);
    if (!found) {
      throw Error(ErrorKind::kNotFound,
                  str("in ", expression_.to_string(), ": ", no_such_column(name, piece_.names)));
    }
    // Repeated values stored once: the kernels want them written out.
    if ((*found)->type_id() == Type::DICTIONARY) {
      auto& type = static_cast<const arrow::DictionaryType&>(*(*found)->type());
      return as_type(*found, type.value_type(), cp::CastOptions::Safe());
    }
    return *found;
  }

  static Datum literal(const Literal& literal) {
    return std::visit([](const auto& value) { return Datum(value); }, literal);
  }

  Datum call(const char* function, std::vector<Datum> arguments) {
    return check(cp::CallFunction(function, arguments), "computing " + expression_.to_string());
  }

  Datum as_type(const Datum& value, const std::shared_ptr<arrow::DataType>& type,
                const cp::CastOptions& options) {
    if (value.type()->Equals(*type)) return value;
    return check(cp::Cast(value, type, options), "computing " + expression_.to_string());
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

  Datum unary(const ExpressionNode& node, const Datum& a) {
    const auto& type = *a.type();
    if (node.op == ExpressionOp::kNot) {
      if (type.id() != Type::BOOL) throw_types(node, "'!' needs a condition");
      return call("invert", {a});
    }
    if (!is_number(type)) throw_types(node, "'-' needs a number");
    bool integer = arrow::is_integer(type.id());
    return call("negate", {promote(a, integer ? arrow::int64() : arrow::float64())});
  }

  // Makes an integer constant as narrow as the column beside it, rather than every row wider.
  static bool narrow(Datum& constant, const arrow::DataType& type) {
    if (!constant.is_scalar() || !arrow::is_integer(type.id())) return false;
    auto narrowed = constant.scalar()->CastTo(type.GetSharedPtr());
    if (!narrowed.ok()) return false;
    auto back = (*narrowed)->CastTo(constant.type());
    if (!back.ok() || !(*back)->Equals(*constant.scalar())) return false;
    constant = *narrowed;
    return true;
  }

  Datum time_from_text(const Datum& text, const std::shared_ptr<arrow::DataType>& type) {
    auto parsed = text.scalar()->CastTo(type);
    if (parsed.ok()) return *parsed;
    throw Error(
        ErrorKind::kInvalidArgument,
        str("in ", expression_.to_string(), ": '", text.scalar()->ToString(),
            "' cannot be read as a ", type->ToString(),
            "; write times as 2020-01-31 or 2020-01-31 08:30:00, with an offset such as +00:00 "
            "if the column has a time zone"));
  }

  Datum binary(const ExpressionNode& node, Datum a, Datum b) {
    if (a.type()->id() == Type::NA) a = promote(a, b.type());
    if (b.type()->id() == Type::NA) b = promote(b, a.type());
    const arrow::DataType& left = *a.type();
    const arrow::DataType& right = *b.type();
    const char* function = arrow_function(node.op);
    if (node.op == ExpressionOp::kAnd || node.op == ExpressionOp::kOr) {
      if (left.id() != Type::BOOL || right.id() != Type::BOOL) {
        throw_types(node, "both sides must be conditions");
      }
      return call(function, {a, b});
    }
    bool compares = node.op >= ExpressionOp::kEqual && node.op <= ExpressionOp::kGreaterEqual;
    if (is_number(left) && is_number(right)) {
      if (compares && left.Equals(right)) return call(function, {a, b});
      bool integers = arrow::is_integer(left.id()) && arrow::is_integer(right.id());
      if (compares && integers && (narrow(a, right) || narrow(b, left))) {
        return call(function, {a, b});
      }
      bool in_integers = integers && node.op != ExpressionOp::kDivide;
      auto type = in_integers ? arrow::int64() : arrow::float64();
      return call(function, {promote(a, type), promote(b, type)});
    }
    if (!compares) throw_types(node, "both sides must be numbers (see cast)");
    if (is_text(left) && is_text(right)) {
      auto type = left.Equals(right) ? a.type() : arrow::large_utf8();
      return call(function, {promote(a, type), promote(b, type)});
    }
    if (left.id() == Type::BOOL && right.id() == Type::BOOL) return call(function, {a, b});
    if (is_time(left) && is_text(right) && b.is_scalar()) {
      return call(function, {a, time_from_text(b, a.type())});
    }
    if (is_text(left) && is_time(right) && a.is_scalar()) {
      return call(function, {time_from_text(a, b.type()), b});
    }
    if (is_time(left) && is_time(right)) return call(function, {a, b});
    throw_types(node, "compare numbers with numbers, texts with texts and times with times");
  }

  std::shared_ptr<arrow::Array> as_array(const Datum& value) {
    if (value.is_array()) return value.make_array();
    return check(arrow::MakeArrayFromScalar(*value.scalar(), piece_.rows),
                 "computing " + expression_.to_string());
  }

  // As a timestamp of the given unit, or of its own.
  std::shared_ptr<arrow::Array> as_times(const ExpressionNode& node, const Datum& value,
                                         std::optional<arrow::TimeUnit::type> unit) {
    const auto& type = *value.type();
    if (!is_time(type)) throw_types(node, "it needs timestamps");
    auto own = type.id() == Type::TIMESTAMP ? static_cast<const arrow::TimestampType&>(type).unit()
                                            : arrow::TimeUnit::MILLI;
    if (type.id() == Type::TIMESTAMP && (!unit || *unit == own)) return as_array(value);
    return as_array(promote(value, arrow::timestamp(unit.value_or(own))));
  }

  static arrow::TimeUnit::type unit_of(const arrow::Array& times) {
    return static_cast<const arrow::TimestampType&>(*times.type()).unit();
  }
  static int64_t per_second(arrow::TimeUnit::type unit) {
    switch (unit) {
      case arrow::TimeUnit::SECOND:
        return 1;
      case arrow::TimeUnit::MILLI:
        return 1000;
      case arrow::TimeUnit::MICRO:
        return 1000000;
      default:
        return 1000000000;
    }
  }
  static const int64_t* raw(const arrow::Array& times) {
    return static_cast<const arrow::TimestampArray&>(times).raw_values();
  }

  // An int32 column with the nulls of one column, or of two.
  template <class Fill>
  Datum make_int32(const arrow::Array& a, const arrow::Array* b, Fill&& fill) {
    const std::string doing = "computing " + expression_.to_string();
    int64_t rows = a.length();
    auto values = check(arrow::AllocateBuffer(rows * 4), doing);
    fill(reinterpret_cast<int32_t*>(values->mutable_data()));
    std::shared_ptr<arrow::Buffer> valid;
    for (const arrow::Array* input : {&a, b}) {
      if (!input || input->null_count() == 0) continue;
      auto* pool = arrow::default_memory_pool();
      const uint8_t* bits = input->null_bitmap_data();
      valid = valid ? check(arrow::internal::BitmapAnd(pool, valid->data(), 0, bits,
                                                       input->offset(), rows, 0),
                            doing)
                    : check(arrow::internal::CopyBitmap(pool, bits, input->offset(), rows), doing);
    }
    return Datum(arrow::ArrayData::Make(arrow::int32(), rows,
                                        {valid, std::shared_ptr<arrow::Buffer>(std::move(values))},
                                        valid ? arrow::kUnknownNullCount : 0));
  }

  Datum time_part(const ExpressionNode& node, const Datum& time) {
    auto times = as_times(node, time, std::nullopt);
    if (!static_cast<const arrow::TimestampType&>(*times->type()).timezone().empty()) {
      return promote(call(arrow_function(node.op), {times}), arrow::int32());
    }
    auto part = node.op == ExpressionOp::kHour ? hours_of_day : days_of_week;
    return make_int32(*times, nullptr, [&](int32_t* out) {
      part(raw(*times), times->length(), per_second(unit_of(*times)), out);
    });
  }

  Datum seconds(const ExpressionNode& node, const Datum& from, const Datum& to) {
    auto begin = as_times(node, from, std::nullopt);
    auto end = as_times(node, to, std::nullopt);
    auto unit = std::max(unit_of(*begin), unit_of(*end));
    begin = as_times(node, begin, unit);
    end = as_times(node, end, unit);
    return make_int32(*begin, end.get(), [&](int32_t* out) {
      seconds_of_difference(raw(*begin), raw(*end), begin->length(), per_second(unit), out);
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
  for (size_t i = 0; i < names.size(); ++i) {
    if (std::find(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(i), names[i]) !=
        names.begin() + static_cast<std::ptrdiff_t>(i)) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("in ", doing, ": column '", names[i], "' is named twice"));
    }
  }
}

std::shared_ptr<arrow::Array> evaluate(const Expression& expression, const Piece& piece) {
  static const arrow::Status initialized = cp::Initialize();
  check(initialized, "starting Arrow's compute functions");
  Datum value = Evaluator(expression, piece).value(expression.node());
  if (value.is_array()) return value.make_array();
  return check(arrow::MakeArrayFromScalar(*value.scalar(), piece.rows),
               "computing " + expression.to_string());
}

}  // namespace manta::data
