#pragma once

#include <chrono>
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
/// zero gives an infinity or NaN. If an operand is null, the result is null. Exceptions are && and
/// ||, which look at the other side (false && null is false), and functions that say so below. A
/// text literal next to a time column is read as a time: `col("pickup") >= "2020-01-15"`.
///
/// Times and durations: time - time is a duration, time + duration a time, and durations can be
/// added, subtracted, multiplied by an integer and divided by each other (a double). They are exact
/// in the finest unit of both sides. A literal is a std::chrono::duration:
/// `col("pickup") + std::chrono::minutes(90)`. `+` puts texts together: `col("first") + " " +
/// col("last")`.
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
  template <std::integral Rep, class Period>
  Expression(std::chrono::duration<Rep, Period> duration)  // NOLINT
      : Expression(of_duration(static_cast<int64_t>(duration.count()), Period::num, Period::den)) {
    static_assert(1'000'000'000 % Period::den == 0,
                  "manta: a duration in an expression counts nanoseconds or a multiple of them");
  }
  Expression(const char* text);         // NOLINT
  Expression(const std::string& text);  // NOLINT
  explicit Expression(std::shared_ptr<const data::ExpressionNode> node);

  /// True where there is no value (is_null), or where there is one (is_valid). A NaN is a value.
  Expression is_null() const;
  Expression is_valid() const;
  /// Converts to another type: "bool", "int8" to "int64", "uint8" to "uint64", "float16",
  /// "float32", "float64", "string", "large_string", "binary", "large_binary", "date32", "date64",
  /// "time32[s]", "time32[ms]", "time64[us]", "time64[ns]", "timestamp[us]" and "duration[us]" (or
  /// s, ms, ns), "timestamp[us, tz=Europe/Berlin]", "decimal128(10, 2)" or "decimal256(50, 2)". A
  /// value that does not fit (300.5 as an int32, "x" as a number) fails the read. Casting a
  /// timestamp to a date or a time of day gives that part of it.
  Expression cast(const std::string& type) const;
  /// True for NaN. Of integers and decimals false.
  Expression is_nan() const;
  /// Whether it equals one of these constants, by the rules of ==.
  Expression is_in(const std::vector<Expression>& constants) const;
  /// Not less than the one and not greater than the other: `low <= x && x <= high`.
  Expression between(const Expression& low, const Expression& high) const;
  /// This expression where it has a value, else `value`: coalesce(*this, value).
  Expression fill_null(const Expression& value) const;

  // ---- Of numbers. Integers stay int64 and others are float64, unless it says otherwise.

  Expression abs() const;
  Expression sign() const;  ///< -1, 0 or 1; of NaN, NaN.
  Expression floor() const;
  Expression ceil() const;
  /// Rounds to this many digits after the decimal point, a half to the even neighbour, as pandas
  /// and NumPy do. With -2, to hundreds.
  Expression round(int digits = 0) const;
  /// Not below `low` and not above `high`: min_of(max_of(x, low), high).
  Expression clip(const Expression& low, const Expression& high) const;
  // These give float64. Outside of where they are defined, the result is NaN or an infinity.
  Expression sqrt() const;
  Expression exp() const;
  Expression log() const;  ///< To the base e.
  Expression log2() const;
  Expression log10() const;
  Expression log1p() const;
  Expression pow(const Expression& exponent) const;
  Expression sin() const;
  Expression cos() const;
  Expression tan() const;
  Expression asin() const;
  Expression acos() const;
  Expression atan() const;
  Expression sinh() const;
  Expression cosh() const;
  Expression tanh() const;

  // ---- Of texts, which must be UTF-8. Characters are code points.

  Expression length() const;  ///< In characters. An int64.
  Expression lower() const;   ///< Character by character.
  Expression upper() const;
  Expression trim() const;        ///< Without white space at both ends,
  Expression trim_start() const;  ///< at the beginning,
  Expression trim_end() const;    ///< or at the end.
  Expression contains(const Expression& text) const;
  Expression starts_with(const Expression& text) const;
  Expression ends_with(const Expression& text) const;
  /// `length` characters from `start` on (the first character is 0; -1 is the last). Without a
  /// length, all characters from there on. Positions outside of the text are left out.
  Expression substring(int64_t start, int64_t length) const;
  Expression substring(int64_t start) const;

  // ---- Of times and dates; in local time if the column has a time zone. All are int32.

  Expression year() const;
  Expression quarter() const;      ///< 1 to 4.
  Expression month() const;        ///< 1 to 12.
  Expression week() const;         ///< 1 to 53, as ISO 8601 counts them.
  Expression day() const;          ///< Of the month, 1 to 31.
  Expression day_of_year() const;  ///< 1 to 366.
  Expression day_of_week() const;  ///< Monday is 0, Sunday 6.
  // These also of times of day.
  Expression hour() const;
  Expression minute() const;
  Expression second() const;
  Expression millisecond() const;  ///< 0 to 999, since the last second;
  Expression microsecond() const;  ///< 0 to 999, since the last millisecond;
  Expression nanosecond() const;   ///< 0 to 999, since the last microsecond.

  Expression date() const;           ///< The day of a time. A date32.
  Expression total_seconds() const;  ///< Of a duration. A float64.

  friend Expression operator+(const Expression& a, const Expression& b);
  friend Expression operator-(const Expression& a, const Expression& b);
  friend Expression operator*(const Expression& a, const Expression& b);
  friend Expression operator/(const Expression& a, const Expression& b);
  /// The remainder of a division, with the sign of the left side, as in C++. For integers it is
  /// exact, and division by zero is an error. For others it is std::fmod.
  friend Expression operator%(const Expression& a, const Expression& b);
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
  static Expression of_duration(int64_t count, int64_t numerator, int64_t denominator);

  std::shared_ptr<const data::ExpressionNode> node_;
};

/// The column of that name, at the point in the plan where the expression is used.
Expression col(const std::string& name);
/// A constant, for places where C++ does not convert a plain value to an Expression: `lit(1) / 3`.
Expression lit(const Expression& value);

/// The seconds from one time to another, without whole days: 0 to 86399, like pandas' `(end -
/// begin).dt.seconds`. An end one second before its begin gives 86399. An int32.
Expression seconds_between(const Expression& begin, const Expression& end);
/// The hour of a time, 0 to 23; in local time if the column has a time zone. An int32.
Expression hour(const Expression& time);
/// Monday is 0, Sunday 6. An int32.
Expression day_of_week(const Expression& time);

/// The angle of the point (x, y), -pi to pi. A float64.
Expression atan2(const Expression& y, const Expression& x);
/// The smaller and the larger of two, compared exactly; NaN if one of them is.
Expression min_of(const Expression& a, const Expression& b);
Expression max_of(const Expression& a, const Expression& b);
/// The first that is not null.
Expression coalesce(const std::vector<Expression>& values);

/// `a` where the condition is true; `b` where it is false or null. A value that is not chosen
/// cannot fail the read: `if_else(col("n") != 0, col("sum") % col("n"), 0)`. As in all choices
/// between values, a constant takes the type of a column if that type can hold it; integers of
/// different types become int64, other numbers float64.
Expression if_else(const Expression& condition, const Expression& a, const Expression& b);

/// The value of the first condition that is true:
/// `when(col("x") < 0, "low").when(col("x") < 10, "middle").otherwise("high")`.
class When {
 public:
  When when(const Expression& condition, const Expression& value) const;
  Expression otherwise(const Expression& value) const;

 private:
  friend When when(const Expression& condition, const Expression& value);
  std::vector<Expression> arguments_;
};
When when(const Expression& condition, const Expression& value);

}  // namespace manta
