#pragma once

#include <boost/multiprecision/cpp_int.hpp>
#include <compare>
#include <cstdint>
#include <memory>

namespace arrow {
class Array;
class DataType;
struct Scalar;
}  // namespace arrow

namespace manta::data {

using Integer = boost::multiprecision::cpp_int;

/// A value without any rounding: a fraction, an infinity or NaN. A comparison costs about a
/// microsecond: use it for constants, and for pairs of types that nothing faster compares exactly.
struct ExactNumber {
  enum class Kind { kFinite, kPlusInfinity, kMinusInfinity, kNaN };

  Kind kind = Kind::kFinite;
  Integer numerator = 0;
  Integer denominator = 1;  ///< Positive.
  double nearby = 0;        ///< About the same number, where a search for the nearest float begins.
};

/// The result is unordered if one of them is NaN.
std::partial_ordering compare(const ExactNumber& a, const ExactNumber& b);

/// The unit of which a type's stored integers are multiples: `numerator / denominator *
/// 10^-decimals`. So a timestamp[ms] of 1500 and a duration of 1500 ms are 1.5 (seconds), a
/// decimal(5, 2) of 150 is 1.50.
struct Unit {
  int64_t numerator = 1;
  int64_t denominator = 1;
  int decimals = 0;

  bool operator==(const Unit&) const = default;
};
/// The unit of a type of numbers, times or durations.
Unit unit_of(const arrow::DataType& type);

/// The value in a row of a column of numbers, times or durations. It must not be null.
ExactNumber exact_value(const arrow::Array& column, int64_t row);

/// The largest value of a type that is not over a given number.
struct Floor {
  std::shared_ptr<arrow::Scalar> value;  ///< Null if all values of the type are over the number.
  bool exact = false;                    ///< The value equals the number.
};
/// `type` is one of integers (which count `unit`s), of decimals, float or double; the number is not
/// NaN.
Floor floor_in(const ExactNumber& number, const arrow::DataType& type, const Unit& unit);

}  // namespace manta::data
