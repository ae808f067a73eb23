#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/evaluator_internal.h"
#include "manta/data/time_parts_internal.h"
#include "manta/data/validity_internal.h"

namespace manta::data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;
using Op = ExpressionOp;

const char* arrow_function(Op op) {
  switch (op) {
    case Op::kAdd:
      return "add";
    case Op::kSubtract:
      return "subtract";
    case Op::kMultiply:
      return "multiply";
    case Op::kDivide:
      return "divide";
    default:
      MANTA_CHECK(op == Op::kNegate, "an operator that is no function of Arrow's");
      return "negate";
  }
}

bool is_number(const arrow::DataType& type) { return meaning_of(type) == Meaning::kNumber; }
bool is_integer(const Datum& value) { return arrow::is_integer(value.type()->id()); }
bool is_duration(const Datum& value) { return value.type()->id() == Type::DURATION; }
bool is_text(const Datum& value) {
  return arrow::is_string(value.type()->id()) || value.type()->id() == Type::STRING_VIEW;
}

[[noreturn]] void fail_to_fit(Evaluator& evaluator, const ExpressionNode& node,
                              const std::string& why) {
  evaluator.fail(str(to_string(node), " does not fit into an int64 (", why,
                     "); for a rounded result, multiply one side by 1.0"));
}

std::vector<Datum> as_int64(Evaluator& evaluator, const ExpressionNode& node,
                            std::vector<Datum> values) {
  for (auto& value : values) {
    auto wide = cp::Cast(value, arrow::int64());
    if (!wide.ok()) fail_to_fit(evaluator, node, wide.status().message());
    value = *wide;
  }
  return values;
}

// Only rows that are null in neither can fail.
template <class T, class Rest>
Datum rest_of(Evaluator& evaluator, const Datum& left, const Datum& right,
              const std::shared_ptr<arrow::DataType>& type, Rest&& rest) {
  auto a = evaluator.as_array(left), b = evaluator.as_array(right);
  auto values = evaluator.get(arrow::AllocateBuffer(a->length() * 8));
  auto valid = valid_in_both(*a, *b);
  auto* x = a->data()->GetValues<T>(1);
  auto* y = b->data()->GetValues<T>(1);
  auto* out = reinterpret_cast<T*>(values->mutable_data());
  for (int64_t i = 0; i < a->length(); ++i) {
    bool is_null = valid && !arrow::bit_util::GetBit(valid->data(), i);
    out[i] = is_null ? T{} : rest(x[i], y[i]);
  }
  int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
  return Datum(arrow::ArrayData::Make(
      type, a->length(), {std::move(valid), std::shared_ptr<arrow::Buffer>(std::move(values))},
      nulls));
}

Datum modulo(Evaluator& evaluator, const ExpressionNode& node, const Datum& a, const Datum& b) {
  if (!is_integer(a) || !is_integer(b)) {
    return rest_of<double>(evaluator, evaluator.promote(a, arrow::float64()),
                           evaluator.promote(b, arrow::float64()), arrow::float64(),
                           [](double x, double y) { return std::fmod(x, y); });
  }
  auto wide = as_int64(evaluator, node, {a, b});
  return rest_of<int64_t>(evaluator, wide[0], wide[1], arrow::int64(),
                          [&](int64_t x, int64_t y) -> int64_t {
                            if (y == 0) {
                              evaluator.fail(str(to_string(node),
                                                 " divides by zero; use if_else to leave out such "
                                                 "rows, or multiply one side by 1.0 for NaN"));
                            }
                            return y == -1 ? 0 : x % y;  // INT64_MIN % -1 traps
                          });
}

Datum of_numbers(Evaluator& evaluator, const ExpressionNode& node,
                 const std::vector<Datum>& values) {
  if (node.op == Op::kModulo) return modulo(evaluator, node, values[0], values[1]);
  bool integers = std::all_of(values.begin(), values.end(), is_integer);
  if (integers && node.op != Op::kDivide) {
    auto wide = as_int64(evaluator, node, values);
    auto result = cp::CallFunction(str(arrow_function(node.op), "_checked"), wide);
    if (!result.ok()) fail_to_fit(evaluator, node, result.status().message());
    return *result;
  }
  std::vector<Datum> doubles;
  for (const auto& value : values) doubles.push_back(evaluator.promote(value, arrow::float64()));
  return evaluator.call(arrow_function(node.op), doubles);
}

arrow::TimeUnit::type unit_of_time(const arrow::DataType& type) {
  if (type.id() == Type::TIMESTAMP) return static_cast<const arrow::TimestampType&>(type).unit();
  if (type.id() == Type::DURATION) return static_cast<const arrow::DurationType&>(type).unit();
  return type.id() == Type::DATE64 ? arrow::TimeUnit::MILLI : arrow::TimeUnit::SECOND;
}

std::string zone_of(const arrow::DataType& type) {
  return type.id() == Type::TIMESTAMP ? static_cast<const arrow::TimestampType&>(type).timezone()
                                      : "";
}

Datum stored_integers(Evaluator& evaluator, const Datum& value) {
  return evaluator.get(evaluator.as_array(value)->View(arrow::int64()));
}

// Times and durations are counts of one unit. An overflow is an error, also when one is converted
// to the unit of the other.
class Counts {
 public:
  Counts(Evaluator& evaluator, const ExpressionNode& node, const Datum& a, const Datum& b)
      : evaluator_(evaluator),
        node_(node),
        unit_(std::max(unit_of_time(*a.type()), unit_of_time(*b.type()))) {}

  arrow::TimeUnit::type unit() const { return unit_; }

  Datum of(const Datum& value) {
    auto type = is_duration(value) ? arrow::duration(unit_)
                                   : arrow::timestamp(unit_, zone_of(*value.type()));
    auto converted = cp::Cast(value, type);
    if (!converted.ok()) fail(converted.status().message());
    return stored_integers(evaluator_, *converted);
  }
  Datum combine(const char* function, const Datum& a, const Datum& b,
                const std::shared_ptr<arrow::DataType>& type) {
    auto counts = cp::CallFunction(str(function, "_checked"), {a, b});
    if (!counts.ok()) fail(counts.status().message());
    return evaluator_.get(counts->make_array()->View(type));
  }

 private:
  [[noreturn]] void fail(const std::string& why) {
    evaluator_.fail(str(to_string(node_), " does not fit into 64 bits of ",
                        arrow::duration(unit_)->ToString(), " (", why,
                        "); cast to a coarser unit first"));
  }

  Evaluator& evaluator_;
  const ExpressionNode& node_;
  const arrow::TimeUnit::type unit_;
};

bool is_time_like(const Datum& value) {
  return is_duration(value) || is_time_or_date(*value.type());
}

// Nothing if these types do not go together.
std::optional<Datum> of_times(Evaluator& evaluator, const ExpressionNode& node, Datum a, Datum b) {
  if (node.op == Op::kSubtract) b = evaluator.as_time_beside(b, *a.type());
  if (node.op == Op::kSubtract) a = evaluator.as_time_beside(a, *b.type());
  bool time_a = is_time_or_date(*a.type()), time_b = is_time_or_date(*b.type());
  if (node.op == Op::kMultiply && (is_integer(a) || is_integer(b))) {
    const Datum& duration = is_duration(a) ? a : b;
    const Datum& factor = is_duration(a) ? b : a;
    if (!is_duration(duration)) return std::nullopt;
    Counts counts(evaluator, node, duration, duration);
    return counts.combine("multiply", counts.of(duration), as_int64(evaluator, node, {factor})[0],
                          duration.type());
  }
  if (!is_time_like(a) || !is_time_like(b)) return std::nullopt;
  Counts counts(evaluator, node, a, b);
  auto duration = arrow::duration(counts.unit());
  if (node.op == Op::kDivide && is_duration(a) && is_duration(b)) {
    return evaluator.call("divide", {evaluator.promote(counts.of(a), arrow::float64()),
                                     evaluator.promote(counts.of(b), arrow::float64())});
  }
  if (node.op == Op::kSubtract && time_a && time_b) {
    require_same_zones(evaluator, node, *a.type(), *b.type());
    return counts.combine("subtract", counts.of(a), counts.of(b), duration);
  }
  bool adds = node.op == Op::kAdd && !(time_a && time_b);
  if (!adds && !(node.op == Op::kSubtract && !time_b)) return std::nullopt;
  const Datum& time = time_b ? b : a;
  auto type = time_a || time_b ? arrow::timestamp(counts.unit(), zone_of(*time.type())) : duration;
  return counts.combine(adds ? "add" : "subtract", counts.of(a), counts.of(b), type);
}

Datum joined(Evaluator& evaluator, const Datum& a, const Datum& b) {
  bool large = a.type()->id() != Type::STRING || b.type()->id() != Type::STRING;
  auto type = large ? arrow::large_utf8() : arrow::utf8();
  Datum nothing(large ? std::shared_ptr<arrow::Scalar>(std::make_shared<arrow::LargeStringScalar>(
                            arrow::Buffer::FromString("")))
                      : std::make_shared<arrow::StringScalar>(""));
  return evaluator.call("binary_join_element_wise",
                        {evaluator.cast(a, type), evaluator.cast(b, type), nothing});
}

Datum negative(Evaluator& evaluator, const ExpressionNode& node) {
  Datum a = evaluator.operand(node, 0);
  if (is_duration(a)) {
    Counts counts(evaluator, node, a, a);
    return counts.combine("subtract", Datum(int64_t{0}), counts.of(a), a.type());
  }
  if (!is_number(*a.type())) evaluator.throw_types(node, "'-' needs a number");
  return of_numbers(evaluator, node, {a});
}

}  // namespace

Datum wide_numbers(Evaluator& evaluator, const ExpressionNode& node, const Datum& value,
                   const std::string& hint) {
  if (value.type()->id() == Type::NA) return evaluator.promote(value, arrow::float64());
  if (!is_number(*value.type())) evaluator.throw_types(node, hint);
  if (is_integer(value)) return as_int64(evaluator, node, {value})[0];
  return evaluator.promote(value, arrow::float64());
}

Datum arithmetic(Evaluator& evaluator, const ExpressionNode& node) {
  if (node.op == Op::kNegate) return negative(evaluator, node);
  Datum a = evaluator.operand(node, 0), b = evaluator.operand(node, 1);
  if (a.type()->id() == Type::NA) a = evaluator.promote(a, b.type());
  if (b.type()->id() == Type::NA) b = evaluator.promote(b, a.type());
  if (is_number(*a.type()) && is_number(*b.type())) return of_numbers(evaluator, node, {a, b});
  if (node.op == Op::kAdd && is_text(a) && is_text(b)) return joined(evaluator, a, b);
  if (auto result = of_times(evaluator, node, a, b)) return *result;
  evaluator.throw_types(node,
                        "both sides must be numbers (see cast), times or durations; + also "
                        "puts texts together");
}

}  // namespace manta::data
