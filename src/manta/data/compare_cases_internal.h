#pragma once

// For tests of comparisons: columns of every type that can be compared, filled with values at the
// ends of types, and the meaning of these values in exact arithmetic that does not use Arrow's.

#include <arrow/api.h>

#include <boost/multiprecision/cpp_int.hpp>
#include <chrono>
#include <cmath>
#include <compare>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {

using BigInteger = boost::multiprecision::cpp_int;
using Fraction = boost::multiprecision::cpp_rational;

/// The meaning of a value. Numbers and times are fractions (of 1, of a second), or have no finite
/// value.
struct Known {
  std::optional<Fraction> number;
  double not_finite = 0;  ///< Infinite or NaN, if there is no number.
  std::optional<std::string> bytes;
};

inline std::partial_ordering order(const Known& a, const Known& b) {
  if (a.bytes) return *a.bytes <=> *b.bytes;
  if (a.number && b.number) {
    return *a.number < *b.number    ? std::partial_ordering::less
           : *a.number == *b.number ? std::partial_ordering::equivalent
                                    : std::partial_ordering::greater;
  }
  return (a.number ? 0.0 : a.not_finite) <=> (b.number ? 0.0 : b.not_finite);
}

inline bool fulfils(std::partial_ordering order, ExpressionOp op) {
  switch (op) {
    case ExpressionOp::kEqual:
      return order == 0;
    case ExpressionOp::kNotEqual:
      return order != 0;
    case ExpressionOp::kLess:
      return order < 0;
    case ExpressionOp::kLessEqual:
      return order <= 0;
    case ExpressionOp::kGreater:
      return order > 0;
    default:
      return order >= 0;
  }
}

constexpr ExpressionOp kComparisons[] = {ExpressionOp::kEqual,   ExpressionOp::kNotEqual,
                                         ExpressionOp::kLess,    ExpressionOp::kLessEqual,
                                         ExpressionOp::kGreater, ExpressionOp::kGreaterEqual};

inline Expression make_comparison(ExpressionOp op, const Expression& a, const Expression& b) {
  switch (op) {
    case ExpressionOp::kEqual:
      return a == b;
    case ExpressionOp::kNotEqual:
      return a != b;
    case ExpressionOp::kLess:
      return a < b;
    case ExpressionOp::kLessEqual:
      return a <= b;
    case ExpressionOp::kGreater:
      return a > b;
    default:
      return a >= b;
  }
}

/// A column and the meaning of its values; nothing where a value is null.
struct KnownColumn {
  std::string name;
  std::string family;  ///< Columns of one family can be compared with each other.
  std::shared_ptr<arrow::Array> column;
  std::vector<std::optional<Known>> values;
  bool in_parquet = true;
};

inline Known known(double value) {
  Known result;
  if (!std::isfinite(value)) {
    result.not_finite = value;
    return result;
  }
  int exponent = 0;
  BigInteger mantissa(static_cast<int64_t>(std::ldexp(std::frexp(value, &exponent), 53)));
  exponent -= 53;
  BigInteger scale = BigInteger(1) << std::abs(exponent);
  result.number = exponent > 0 ? Fraction(mantissa * scale) : Fraction(mantissa, scale);
  return result;
}
inline Known known(const Fraction& value) { return {value, 0, std::nullopt}; }
inline Known known(const std::string& bytes) { return {std::nullopt, 0, bytes}; }

/// A column from its raw little-endian values, each `width` bytes wide.
inline std::shared_ptr<arrow::Array> raw_column(
    const std::shared_ptr<arrow::DataType>& type,
    const std::vector<std::optional<BigInteger>>& values, int width) {
  std::string bytes, valid((values.size() + 7) / 8, '\0');
  for (size_t i = 0; i < values.size(); ++i) {
    BigInteger rest = values[i].value_or(BigInteger(0));
    if (rest < 0) rest += BigInteger(1) << (8 * width);
    for (int j = 0; j < width; ++j, rest >>= 8)
      bytes += static_cast<char>(static_cast<unsigned>(rest & 0xff));
    if (values[i]) valid[i / 8] = static_cast<char>(valid[i / 8] | (1 << (i % 8)));
  }
  return arrow::MakeArray(
      arrow::ArrayData::Make(type, static_cast<int64_t>(values.size()),
                             {arrow::Buffer::FromString(valid), arrow::Buffer::FromString(bytes)}));
}

/// Integers around the ends of all integer types and of what floating types hold exactly, as far as
/// they fit.
inline std::vector<std::optional<BigInteger>> edges(const BigInteger& smallest,
                                                    const BigInteger& largest) {
  std::vector<std::optional<BigInteger>> values = {std::nullopt, smallest, largest};
  for (int bit : {0, 7, 8, 24, 31, 53, 63, 64, 120}) {
    for (int around : {-1, 0, 1}) {
      for (int sign : {-1, 1}) {
        BigInteger value = sign * ((BigInteger(1) << bit) + around);
        if (value >= smallest && value <= largest) values.push_back(value);
      }
    }
  }
  return values;
}

/// A column of integers that count units of their family.
inline KnownColumn counting(const std::string& family, const std::shared_ptr<arrow::DataType>& type,
                            const Fraction& unit, const BigInteger& smallest,
                            const BigInteger& largest, int width) {
  KnownColumn result{type->ToString(), family, nullptr, {}};
  auto values = edges(smallest, largest);
  for (const auto& value : values) {
    result.values.push_back(value ? std::optional(known(Fraction(*value) * unit)) : std::nullopt);
  }
  result.column = raw_column(type, values, width);
  return result;
}

inline KnownColumn counting(const std::string& family, const std::shared_ptr<arrow::DataType>& type,
                            const Fraction& unit) {
  int bits = type->bit_width();
  bool is_unsigned = arrow::is_unsigned_integer(type->id());
  BigInteger largest = (BigInteger(1) << (is_unsigned ? bits : bits - 1)) - 1;
  return counting(family, type, unit, is_unsigned ? BigInteger(0) : BigInteger(-largest - 1),
                  largest, bits / 8);
}

inline KnownColumn decimals(const std::shared_ptr<arrow::DataType>& type) {
  auto& decimal = static_cast<const arrow::DecimalType&>(*type);
  BigInteger ten = 10;
  BigInteger largest = pow(ten, static_cast<unsigned>(decimal.precision())) - 1;
  BigInteger scale = pow(ten, static_cast<unsigned>(std::abs(decimal.scale())));
  return counting("number", type, decimal.scale() < 0 ? Fraction(scale) : Fraction(1, scale),
                  -largest, largest, decimal.byte_width());
}

inline const std::vector<double>& edge_doubles() {
  static const std::vector<double> values = {
      0.0,      -0.0,        0.1,    -0.5,       1.0,    255.0,   -128.5,  16777216.0,
      0x1p31,   -0x1p31 - 1, 0x1p53, 0x1p53 + 2, 0x1p63, -0x1p63, 0x1p64,  0x1.fffffffffffffp63,
      1e38,     3.5e38,      -1e300, 5e-324,     1e-46,  65504.0, 65519.0, 123456.789,
      INFINITY, -INFINITY,   NAN};
  return values;
}

template <class T>
KnownColumn floating(const std::shared_ptr<arrow::DataType>& type) {
  KnownColumn result{type->ToString(), "number", nullptr, {}};
  typename arrow::CTypeTraits<T>::BuilderType builder;
  check(builder.AppendNull(), "a null");
  result.values.push_back(std::nullopt);
  for (double value : edge_doubles()) {
    auto narrow = std::isfinite(value) && std::abs(value) > std::numeric_limits<T>::max()
                      ? std::numeric_limits<T>::max()
                      : static_cast<T>(value);
    check(builder.Append(narrow), "a value");
    result.values.push_back(known(static_cast<double>(narrow)));
  }
  result.column = check(builder.Finish(), "a column");
  return result;
}

inline KnownColumn half_floats() {
  KnownColumn result{"halffloat", "number", nullptr, {std::nullopt}};
  std::vector<std::optional<BigInteger>> bits = {std::nullopt};
  auto add = [&](int raw, double value) {
    bits.push_back(BigInteger(raw));
    result.values.push_back(known(value));
  };
  add(0x0000, 0.0);
  add(0x8000, -0.0);
  add(0x0001, 0x1p-24);
  add(0x2e66, 0.0999755859375);
  add(0x3c00, 1.0);
  add(0xb800, -0.5);
  add(0x5bf8, 255.0);
  add(0x7bff, 65504.0);
  add(0xfbff, -65504.0);
  add(0x7c00, INFINITY);
  add(0xfc00, -INFINITY);
  add(0x7e00, NAN);
  result.column = raw_column(arrow::float16(), bits, 2);
  return result;
}

/// Durations of every unit, around the unit's ends and around zero, and their numbers of seconds.
inline std::vector<std::pair<Expression, Known>> duration_constants() {
  std::vector<std::pair<Expression, Known>> constants;
  auto add = [&]<class Duration>(Duration) {
    using Period = typename Duration::period;
    for (int64_t count :
         {int64_t{0}, int64_t{1}, int64_t{-1}, int64_t{127}, int64_t{1} << 53,
          std::numeric_limits<int64_t>::max(), std::numeric_limits<int64_t>::min()}) {
      constants.emplace_back(Duration(count),
                             known(Fraction(count) * Fraction(Period::num, Period::den)));
    }
  };
  add(std::chrono::seconds());
  add(std::chrono::milliseconds());
  add(std::chrono::microseconds());
  add(std::chrono::nanoseconds());
  constants.emplace_back(std::chrono::hours(25), known(Fraction(90000)));
  return constants;
}

/// Constants at the ends of types, and their meaning.
inline std::vector<std::pair<Expression, Known>> number_constants() {
  std::vector<std::pair<Expression, Known>> constants;
  for (const auto& value :
       edges(std::numeric_limits<int64_t>::min(), std::numeric_limits<int64_t>::max())) {
    if (value) constants.emplace_back(static_cast<int64_t>(*value), known(Fraction(*value)));
  }
  for (uint64_t value : {uint64_t{1} << 63, (uint64_t{1} << 63) + 1, ~uint64_t{0}}) {
    constants.emplace_back(value, known(Fraction(value)));
  }
  for (double value : edge_doubles()) constants.emplace_back(value, known(value));
  return constants;
}

/// Constants to compare a column's values with: at the ends of types, and near the column's values.
inline std::vector<std::pair<Expression, Known>> constants_for(const KnownColumn& column) {
  std::vector<std::pair<Expression, Known>> constants;
  if (column.family == "number") return number_constants();
  if (column.family == "duration") return duration_constants();
  // Seconds since 1970, or since midnight.
  Fraction tiny(1, 1000000000);
  if (column.family == "bytes") {
    for (const char* text : {"", "a", "b", "ab", "\xc3\xa9", "a long text, out of line", "zz"}) {
      constants.emplace_back(text, known(std::string(text)));
    }
  } else if (column.family == "bool") {
    constants = {{true, known(Fraction(1))}, {false, known(Fraction(0))}};
  } else if (column.family == "time" || column.family == "instant") {
    const std::pair<std::string, Fraction> times[] = {
        {"1970-01-01", 0},
        {"1970-01-01 00:00:01", 1},
        {"1970-01-01 00:00:00.000000001", tiny},
        {"1970-01-01 00:00:00.0000005", 500 * tiny},
        {"1969-12-31 23:59:59.999999999", -tiny},
        {"1970-01-02 00:00:00.5", Fraction(172801, 2)},
        {"9999-12-31", Fraction(253402214400)}};
    for (const auto& [text, value] : times) {
      std::string zone = column.family == "time" ? "" : text.size() == 10 ? " 00:00Z" : "+00:00";
      constants.emplace_back(text + zone, known(value));
    }
  } else if (column.family == "time of day") {
    constants = {{"00:00:00", known(Fraction(0))},
                 {"00:00:00.000000127", known(127 * tiny)},
                 {"00:00:00.0000005", known(500 * tiny)},
                 {"00:00:01", known(Fraction(1))},
                 {"23:59:59.999999999", known(Fraction(86400) - tiny)}};
  }
  return constants;
}

inline KnownColumn texts(const std::shared_ptr<arrow::DataType>& type) {
  KnownColumn result{type->ToString(), "bytes", nullptr, {}};
  auto builder = check(arrow::MakeBuilder(type), "a builder");
  bool fixed = type->id() == arrow::Type::FIXED_SIZE_BINARY;
  for (const char* text : {"ab", "", "a", "b", "a long text, out of line",
                           "a long text, out of lime", "\xc3\xa9", "zz", "Z", "~"}) {
    std::string value = fixed ? std::string(text).append("  ").substr(0, 2) : text;
    auto scalar = check(arrow::MakeScalar(type, arrow::Buffer::FromString(value)), "a text");
    check(builder->AppendScalar(*scalar), "a text");
    result.values.push_back(known(value));
  }
  check(builder->AppendNull(), "a null");
  result.values.push_back(std::nullopt);
  result.column = check(builder->Finish(), "texts");
  return result;
}

inline KnownColumn flags() {
  KnownColumn result{"bool", "bool", nullptr, {}};
  arrow::BooleanBuilder builder;
  for (int value : {1, 0, 2}) {
    check(value == 2 ? builder.AppendNull() : builder.Append(value == 1), "a flag");
    result.values.push_back(value == 2 ? std::nullopt : std::optional(known(Fraction(value))));
  }
  result.column = check(builder.Finish(), "flags");
  return result;
}

inline std::vector<KnownColumn> known_columns() {
  using arrow::TimeUnit;
  std::vector<KnownColumn> columns;
  for (const auto& type : {arrow::int8(), arrow::int16(), arrow::int32(), arrow::int64(),
                           arrow::uint8(), arrow::uint16(), arrow::uint32(), arrow::uint64()}) {
    columns.push_back(counting("number", type, 1));
  }
  columns.push_back(half_floats());
  columns.push_back(floating<float>(arrow::float32()));
  columns.push_back(floating<double>(arrow::float64()));
  for (const auto& type :
       {arrow::decimal32(9, 2), arrow::decimal64(18, 4), arrow::decimal128(20, 5),
        arrow::decimal128(38, 0), arrow::decimal128(38, 38), arrow::decimal256(76, 0),
        arrow::decimal256(76, 30), arrow::decimal256(60, 2)}) {
    columns.push_back(decimals(type));
  }
  columns.push_back(decimals(arrow::decimal256(70, -20)));
  columns.back().in_parquet = false;
  const std::pair<TimeUnit::type, Fraction> units[] = {{TimeUnit::SECOND, 1},
                                                       {TimeUnit::MILLI, Fraction(1, 1000)},
                                                       {TimeUnit::MICRO, Fraction(1, 1000000)},
                                                       {TimeUnit::NANO, Fraction(1, 1000000000)}};
  for (const auto& [unit, fraction] : units) {
    const char* zone = unit == TimeUnit::MICRO ? "America/New_York" : "UTC";
    columns.push_back(counting("time", arrow::timestamp(unit), fraction));
    columns.push_back(counting("instant", arrow::timestamp(unit, zone), fraction));
    // Parquet has no seconds, and the ends of these do not fit into milliseconds.
    if (unit == TimeUnit::SECOND)
      columns.end()[-2].in_parquet = columns.end()[-1].in_parquet = false;
    columns.push_back(counting("duration", arrow::duration(unit), fraction));
    BigInteger day = BigInteger(numerator(Fraction(86400) / fraction)) - 1;
    if (unit == TimeUnit::SECOND || unit == TimeUnit::MILLI) {
      columns.push_back(counting("time of day", arrow::time32(unit), fraction, 0, day, 4));
    } else {
      columns.push_back(counting("time of day", arrow::time64(unit), fraction, 0, day, 8));
    }
  }
  columns.push_back(counting("time", arrow::date32(), 86400));
  columns.push_back(counting("time", arrow::date64(), Fraction(1, 1000)));
  columns.back().in_parquet = false;  // comes back as a date32, of whole days
  for (const auto& type :
       {arrow::utf8(), arrow::large_utf8(), arrow::utf8_view(), arrow::binary(),
        arrow::large_binary(), arrow::binary_view(), arrow::fixed_size_binary(2)}) {
    columns.push_back(texts(type));
  }
  columns.push_back(flags());
  return columns;
}

}  // namespace manta::data
