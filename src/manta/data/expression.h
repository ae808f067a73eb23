#pragma once

#include <concepts>
#include <cstdint>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "manta/base/json.h"

namespace manta {

namespace data {
struct ExpressionNode;
}

/// A computation on the columns of a Dataset, one value a row: `col("fare") * 0.2 < col("tip")`. It
/// is a description only: nothing is computed until rows are read, and then whole columns at a
/// time.
///
/// Comparisons are exact: values are compared as the numbers, times and texts that they stand for,
/// whatever types hold them, without rounding or wrapping either side. Integers are combined as
/// int64, and a result that does not fit fails the read; with a floating number or a decimal on one
/// side, both are combined as doubles. Dividing gives a double, also for two integers; by zero it
/// gives an infinity or NaN. Whatever has a null operand is null, except && and ||, which look at
/// the other side (false && null is false). A text literal beside a time column is read as a time:
/// `col("pickup") >= "2020-01-15"`.
///
/// A chain of any number of && (or of ||) is one operator; at most 248 operators may lie inside
/// each other, and one more is Error(kInvalidArgument).
class Expression {
 public:
  /// A constant. So a number, a bool or a text can stand wherever an expression can.
  template <class T>
  requires(std::is_arithmetic_v<T> && !std::same_as<T, long double>)  // no column holds as much
      Expression(T value) {  // NOLINT: implicit is the point
    if constexpr (std::same_as<T, bool>) {
      *this = of_bool(value);
    } else if constexpr (std::unsigned_integral<T>) {
      *this = of_unsigned(value);
    } else if constexpr (std::integral<T>) {
      *this = of_int(value);
    } else {
      *this = of_double(static_cast<double>(value));
    }
  }
  Expression(const char* text);         // NOLINT
  Expression(const std::string& text);  // NOLINT
  explicit Expression(std::shared_ptr<const data::ExpressionNode> node);

  /// True where there is no value, or where there is one. A NaN is a value.
  Expression is_null() const;
  Expression is_valid() const;
  /// As another type: "bool", "int32", "int64", "float32", "float64" or "string". A value that does
  /// not fit (300.5 as an int32, "x" as a number) fails the read.
  Expression cast(const std::string& type) const;

  friend Expression operator+(const Expression& a, const Expression& b);
  friend Expression operator-(const Expression& a, const Expression& b);
  friend Expression operator*(const Expression& a, const Expression& b);
  friend Expression operator/(const Expression& a, const Expression& b);
  friend Expression operator-(const Expression& a);
  friend Expression operator==(const Expression& a, const Expression& b);
  friend Expression operator!=(const Expression& a, const Expression& b);
  friend Expression operator<(const Expression& a, const Expression& b);
  friend Expression operator<=(const Expression& a, const Expression& b);
  friend Expression operator>(const Expression& a, const Expression& b);
  friend Expression operator>=(const Expression& a, const Expression& b);
  friend Expression operator&&(const Expression& a, const Expression& b);
  friend Expression operator||(const Expression& a, const Expression& b);
  friend Expression operator!(const Expression& a);

  /// As one would write it: `(passenger_count <= 4) && (fare < 1000)`.
  std::string to_string() const;
  Json to_json() const;
  /// Throws Error(kInvalidArgument) if it is not what `to_json` writes.
  static Expression from_json(const Json& json);

  const data::ExpressionNode& node() const { return *node_; }
  const std::shared_ptr<const data::ExpressionNode>& shared_node() const { return node_; }

 private:
  static Expression of_int(int64_t value);
  static Expression of_unsigned(uint64_t value);
  static Expression of_double(double value);
  static Expression of_bool(bool value);

  std::shared_ptr<const data::ExpressionNode> node_;
};

/// The column of that name, at the place where the expression is used.
Expression col(const std::string& name);
/// A constant, where a plain C++ value would not become an Expression by itself: `lit(1) / 3`.
Expression lit(const Expression& value);

/// The seconds from one time to another without the whole days: 0 to 86399, as pandas'
/// `(end - begin).dt.seconds`. An end one second before its begin gives 86399. An int32.
Expression seconds_between(const Expression& begin, const Expression& end);
/// The hour of a time, 0 to 23; of the local one if the column has a time zone. An int32.
Expression hour(const Expression& time);
/// Monday is 0, Sunday 6. An int32.
Expression day_of_week(const Expression& time);

}  // namespace manta
