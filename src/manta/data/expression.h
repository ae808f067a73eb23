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

/// A computation on the columns of a Dataset, one value per row: `col("fare") * 0.2 < col("tip")`.
/// It is only a description: nothing is computed until rows are read, and then whole columns at a
/// time.
///
/// Comparisons are exact: values are compared as the numbers, times and texts that they mean,
/// whatever types hold them; neither side is rounded or wrapped. Arithmetic on integers is done in
/// int64, and a result that does not fit fails the read. With a floating-point number or a decimal
/// on one side, it is done in double. A division gives a double, even of two integers; division by
/// zero gives an infinity or NaN. If an operand is null, the result is null, except for && and ||,
/// which look at the other side (false && null is false). A text literal beside a time column is
/// read as a time: `col("pickup") >= "2020-01-15"`.
///
/// A chain of any number of && (or of ||) is one operator. At most 248 operators may be nested; one
/// more is Error(kInvalidArgument).
class Expression {
 public:
  /// A constant: lets a number, a bool or a text stand wherever an expression can.
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

  /// True where there is no value (is_null), or where there is one (is_valid). A NaN is a value.
  Expression is_null() const;
  Expression is_valid() const;
  /// Converts to another type: "bool", "int32", "int64", "float32", "float64" or "string". A value
  /// that does not fit (300.5 as an int32, "x" as a number) fails the read.
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

  /// As you would write it: `(passenger_count <= 4) && (fare < 1000)`.
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

/// The column of that name, at the point in the plan where the expression is used.
Expression col(const std::string& name);
/// A constant, where a plain C++ value would not become an Expression by itself: `lit(1) / 3`.
Expression lit(const Expression& value);

/// The seconds from one time to another without the whole days: 0 to 86399, like pandas' `(end -
/// begin).dt.seconds`. An end one second before its begin gives 86399. An int32.
Expression seconds_between(const Expression& begin, const Expression& end);
/// The hour of a time, 0 to 23; in local time if the column has a time zone. An int32.
Expression hour(const Expression& time);
/// Monday is 0, Sunday 6. An int32.
Expression day_of_week(const Expression& time);

}  // namespace manta
