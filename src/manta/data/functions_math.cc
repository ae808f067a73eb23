#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <cmath>

#include "manta/data/expression_function_internal.h"
#include "manta/data/validity_internal.h"

namespace manta {
namespace data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using ArrayPtr = std::shared_ptr<arrow::Array>;

constexpr const char* kNeedsNumbers = "it needs numbers (see cast)";

ArrayPtr doubles(Evaluator& evaluator, const ExpressionNode& node, size_t index) {
  Datum value = evaluator.operand(node, index);
  // Does not go through int64, which does not hold all values.
  bool is_integer = arrow::is_integer(value.type()->id());
  Datum wide = is_integer ? value : wide_numbers(evaluator, node, value, kNeedsNumbers);
  return evaluator.as_array(evaluator.promote(wide, arrow::float64()));
}

template <class T, class Fill>
Datum make_numbers(Evaluator& evaluator, const arrow::Array& a, const arrow::Array& b,
                   Fill&& value_at) {
  auto values = evaluator.get(arrow::AllocateBuffer(a.length() * 8));
  auto* out = reinterpret_cast<T*>(values->mutable_data());
  for (int64_t i = 0; i < a.length(); ++i) out[i] = value_at(i);
  auto valid = valid_in_both(a, b);
  int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
  return Datum(arrow::ArrayData::Make(
      arrow::CTypeTraits<T>::type_singleton(), a.length(),
      {std::move(valid), std::shared_ptr<arrow::Buffer>(std::move(values))}, nulls));
}

template <class Function>
Datum of_doubles(Evaluator& evaluator, const ExpressionNode& node, Function function) {
  auto array = doubles(evaluator, node, 0);
  auto* x = array->data()->GetValues<double>(1);
  return make_numbers<double>(evaluator, *array, *array, [&](int64_t i) { return function(x[i]); });
}

template <class Function>
Datum of_two_doubles(Evaluator& evaluator, const ExpressionNode& node, Function function) {
  auto a = doubles(evaluator, node, 0), b = doubles(evaluator, node, 1);
  auto* x = a->data()->GetValues<double>(1);
  auto* y = b->data()->GetValues<double>(1);
  return make_numbers<double>(evaluator, *a, *b, [&](int64_t i) { return function(x[i], y[i]); });
}

// Integers stay as they are; other numbers are rounded.
Datum whole(Evaluator& evaluator, const ExpressionNode& node, const char* function) {
  Datum value = wide_numbers(evaluator, node, evaluator.operand(node, 0), kNeedsNumbers);
  if (arrow::is_integer(value.type()->id())) return value;
  return evaluator.call(function, {value});
}

Datum sign_of(Evaluator& evaluator, const ExpressionNode& node) {
  Datum value = wide_numbers(evaluator, node, evaluator.operand(node, 0), kNeedsNumbers);
  return evaluator.promote(evaluator.call("sign", {value}), value.type());
}

Datum absolute(Evaluator& evaluator, const ExpressionNode& node) {
  Datum value = wide_numbers(evaluator, node, evaluator.operand(node, 0), kNeedsNumbers);
  if (!arrow::is_integer(value.type()->id())) return evaluator.call("abs", {value});
  auto result = cp::CallFunction("abs_checked", {value});
  if (!result.ok()) evaluator.fail(str(to_string(node), " does not fit into an int64"));
  return *result;
}

// Rounds to a multiple of 10^digits, a half to the even multiple.
Datum rounded_integers(Evaluator& evaluator, const ExpressionNode& node, const Datum& value,
                       int64_t digits) {
  __int128 step = 1;
  for (int64_t i = 0; i < std::min<int64_t>(digits, 20); ++i) step *= 10;
  auto array = evaluator.as_array(value);
  auto* x = array->data()->GetValues<int64_t>(1);
  return make_numbers<int64_t>(evaluator, *array, *array, [&](int64_t i) -> int64_t {
    __int128 times = x[i] / step, rest = x[i] % step;
    __int128 twice = rest < 0 ? -2 * rest : 2 * rest;
    if (twice > step || (twice == step && times % 2 != 0)) times += x[i] < 0 ? -1 : 1;
    __int128 result = times * step;
    if (result < INT64_MIN || result > INT64_MAX) {
      if (array->IsNull(i)) return 0;
      evaluator.fail(str(to_string(node), " does not fit into an int64"));
    }
    return static_cast<int64_t>(result);
  });
}

Datum rounded(Evaluator& evaluator, const ExpressionNode& node) {
  int64_t digits = constant_integer(evaluator, node, 1, "its digits");
  if (digits < -400 || digits > 400) {
    evaluator.fail(str(to_string(node), " needs digits from -400 to 400"));
  }
  Datum value = wide_numbers(evaluator, node, evaluator.operand(node, 0), kNeedsNumbers);
  if (arrow::is_integer(value.type()->id())) {
    return digits >= 0 ? value : rounded_integers(evaluator, node, value, -digits);
  }
  cp::RoundOptions options(digits, cp::RoundMode::HALF_TO_EVEN);
  return evaluator.call("round", {value}, &options);
}

using E = Evaluator;
using N = const ExpressionNode;

#define MANTA_OF_DOUBLES(name, function)                                                          \
  {                                                                                               \
    name, 1, 1, [](E& e, N& n) { return of_doubles(e, n, [](double x) { return function(x); }); } \
  }

constexpr ExpressionFunction kMathFunctions[] = {
    {"abs", 1, 1, absolute},
    {"sign", 1, 1, sign_of},
    {"floor", 1, 1, [](E& e, N& n) { return whole(e, n, "floor"); }},
    {"ceil", 1, 1, [](E& e, N& n) { return whole(e, n, "ceil"); }},
    {"round", 2, 2, rounded},
    MANTA_OF_DOUBLES("sqrt", std::sqrt),
    MANTA_OF_DOUBLES("exp", std::exp),
    MANTA_OF_DOUBLES("log", std::log),
    MANTA_OF_DOUBLES("log2", std::log2),
    MANTA_OF_DOUBLES("log10", std::log10),
    MANTA_OF_DOUBLES("log1p", std::log1p),
    MANTA_OF_DOUBLES("sin", std::sin),
    MANTA_OF_DOUBLES("cos", std::cos),
    MANTA_OF_DOUBLES("tan", std::tan),
    MANTA_OF_DOUBLES("asin", std::asin),
    MANTA_OF_DOUBLES("acos", std::acos),
    MANTA_OF_DOUBLES("atan", std::atan),
    MANTA_OF_DOUBLES("sinh", std::sinh),
    MANTA_OF_DOUBLES("cosh", std::cosh),
    MANTA_OF_DOUBLES("tanh", std::tanh),
    {"pow", 2, 2,
     [](E& e, N& n) {
       return of_two_doubles(e, n, [](double x, double y) { return std::pow(x, y); });
     }},
    {"atan2", 2, 2,
     [](E& e, N& n) {
       return of_two_doubles(e, n, [](double y, double x) { return std::atan2(y, x); });
     }},
};
#undef MANTA_OF_DOUBLES

}  // namespace

std::span<const ExpressionFunction> math_functions() { return kMathFunctions; }

}  // namespace data

using data::call_function;

Expression Expression::abs() const { return call_function("abs", {*this}); }
Expression Expression::sign() const { return call_function("sign", {*this}); }
Expression Expression::floor() const { return call_function("floor", {*this}); }
Expression Expression::ceil() const { return call_function("ceil", {*this}); }
Expression Expression::round(int digits) const { return call_function("round", {*this, digits}); }
Expression Expression::sqrt() const { return call_function("sqrt", {*this}); }
Expression Expression::exp() const { return call_function("exp", {*this}); }
Expression Expression::log() const { return call_function("log", {*this}); }
Expression Expression::log2() const { return call_function("log2", {*this}); }
Expression Expression::log10() const { return call_function("log10", {*this}); }
Expression Expression::log1p() const { return call_function("log1p", {*this}); }
Expression Expression::sin() const { return call_function("sin", {*this}); }
Expression Expression::cos() const { return call_function("cos", {*this}); }
Expression Expression::tan() const { return call_function("tan", {*this}); }
Expression Expression::asin() const { return call_function("asin", {*this}); }
Expression Expression::acos() const { return call_function("acos", {*this}); }
Expression Expression::atan() const { return call_function("atan", {*this}); }
Expression Expression::sinh() const { return call_function("sinh", {*this}); }
Expression Expression::cosh() const { return call_function("cosh", {*this}); }
Expression Expression::tanh() const { return call_function("tanh", {*this}); }
Expression Expression::pow(const Expression& exponent) const {
  return call_function("pow", {*this, exponent});
}
Expression atan2(const Expression& y, const Expression& x) {
  return call_function("atan2", {y, x});
}

}  // namespace manta
