#include <arrow/api.h>
#include <arrow/util/float16.h>

#include <array>
#include <cmath>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/data/exact_number_internal.h"
#include "manta/data/time_parts_internal.h"

namespace manta::data {
namespace {

using arrow::Type;
using Kind = ExactNumber::Kind;

Integer power(int base, int exponent) {
  return boost::multiprecision::pow(Integer(base), static_cast<unsigned>(exponent));
}

ExactNumber from_double(double value) {
  ExactNumber number;
  number.nearby = value;
  if (std::isnan(value)) {
    number.kind = Kind::kNaN;
  } else if (std::isinf(value)) {
    number.kind = value > 0 ? Kind::kPlusInfinity : Kind::kMinusInfinity;
  } else {
    int exponent = 0;
    double mantissa = std::frexp(value, &exponent);  // 53 binary digits after the point
    number.numerator = static_cast<int64_t>(std::ldexp(mantissa, 53));
    exponent -= 53;
    (exponent > 0 ? number.numerator : number.denominator) *= power(2, std::abs(exponent));
  }
  return number;
}

ExactNumber from_integer(const Integer& value, const Unit& unit) {
  ExactNumber number;
  number.numerator = value * unit.numerator;
  number.denominator = unit.denominator;
  (unit.decimals < 0 ? number.numerator : number.denominator) *= power(10, std::abs(unit.decimals));
  number.nearby = number.numerator.convert_to<double>() / number.denominator.convert_to<double>();
  return number;
}

template <class ArrayType>
auto raw(const arrow::Array& column, int64_t row) {
  return static_cast<const ArrayType&>(column).Value(row);
}

// A decimal's integer, which is stored as two's complement, lowest byte first.
Integer decimal_integer(const arrow::Array& column, int64_t row) {
  auto& bytes = static_cast<const arrow::FixedSizeBinaryArray&>(column);
  const uint8_t* value = bytes.GetValue(row);
  Integer result = 0;
  for (int i = bytes.byte_width(); i-- > 0;) result = result * 256 + value[i];
  if (value[bytes.byte_width() - 1] & 0x80) result -= power(2, 8 * bytes.byte_width());
  return result;
}

template <class Value>
std::shared_ptr<arrow::Scalar> make_decimal(const Integer& value, const arrow::DataType& type) {
  constexpr int kBytes = Value::kByteWidth;
  Integer rest = value < 0 ? Integer(value + power(2, 8 * kBytes)) : value;
  std::array<uint8_t, kBytes> bytes{};
  for (auto& byte : bytes) {
    byte = static_cast<uint8_t>(rest & 0xff);
    rest >>= 8;
  }
  return arrow::MakeScalar(type.GetSharedPtr(), Value(bytes.data())).ValueOrDie();
}

template <class T>
std::shared_ptr<arrow::Scalar> make_integer(const Integer& value, const arrow::DataType& type) {
  return arrow::MakeScalar(type.GetSharedPtr(), static_cast<T>(value)).ValueOrDie();
}

std::shared_ptr<arrow::Scalar> make_scalar(const Integer& value, const arrow::DataType& type) {
  switch (type.id()) {
    case Type::INT8:
      return make_integer<int8_t>(value, type);
    case Type::INT16:
      return make_integer<int16_t>(value, type);
    case Type::INT32:
      return make_integer<int32_t>(value, type);
    case Type::INT64:
      return make_integer<int64_t>(value, type);
    case Type::UINT8:
      return make_integer<uint8_t>(value, type);
    case Type::UINT16:
      return make_integer<uint16_t>(value, type);
    case Type::UINT32:
      return make_integer<uint32_t>(value, type);
    case Type::UINT64:
      return make_integer<uint64_t>(value, type);
    case Type::DECIMAL32:
      return make_decimal<arrow::Decimal32>(value, type);
    case Type::DECIMAL64:
      return make_decimal<arrow::Decimal64>(value, type);
    case Type::DECIMAL128:
      return make_decimal<arrow::Decimal128>(value, type);
    default:
      MANTA_CHECK(type.id() == Type::DECIMAL256, "a constant of a type without integers");
      return make_decimal<arrow::Decimal256>(value, type);
  }
}

template <class T>
Floor floor_of_floating(const ExactNumber& number) {
  constexpr T kInfinity = std::numeric_limits<T>::infinity();
  if (number.kind != Kind::kFinite) {
    return {arrow::MakeScalar(number.kind == Kind::kPlusInfinity ? kInfinity : -kInfinity), true};
  }
  T value = kInfinity;
  if (std::abs(number.nearby) <= static_cast<double>(std::numeric_limits<T>::max())) {
    value = static_cast<T>(number.nearby);
  } else if (number.nearby < 0) {
    value = -kInfinity;
  }
  // `nearby` is off by a rounding or two, so that few steps are enough.
  auto is_over = [&](T candidate) {
    return compare(from_double(static_cast<double>(candidate)), number) > 0;
  };
  while (is_over(value)) value = std::nextafter(value, -kInfinity);
  while (!is_over(std::nextafter(value, kInfinity))) value = std::nextafter(value, kInfinity);
  return {arrow::MakeScalar(value), compare(from_double(static_cast<double>(value)), number) == 0};
}

}  // namespace

std::partial_ordering compare(const ExactNumber& a, const ExactNumber& b) {
  if (a.kind == Kind::kNaN || b.kind == Kind::kNaN) return std::partial_ordering::unordered;
  auto infinity = [](const ExactNumber& number) {
    return number.kind == Kind::kFinite ? 0 : number.kind == Kind::kPlusInfinity ? 1 : -1;
  };
  if (infinity(a) != 0 || infinity(b) != 0) return infinity(a) <=> infinity(b);
  return Integer(a.numerator * b.denominator).compare(b.numerator * a.denominator) <=> 0;
}

Unit unit_of(const arrow::DataType& type) {
  switch (type.id()) {
    case Type::TIMESTAMP:
      return {1, per_second(static_cast<const arrow::TimestampType&>(type).unit()), 0};
    case Type::TIME32:
    case Type::TIME64:
      return {1, per_second(static_cast<const arrow::TimeType&>(type).unit()), 0};
    case Type::DURATION:
      return {1, per_second(static_cast<const arrow::DurationType&>(type).unit()), 0};
    case Type::DATE32:
      return {86400, 1, 0};
    case Type::DATE64:
      return {1, 1000, 0};
    default:
      if (!arrow::is_decimal(type.id())) return {};
      return {1, 1, static_cast<const arrow::DecimalType&>(type).scale()};
  }
}

ExactNumber exact_value(const arrow::Array& column, int64_t row) {
  auto integer = [&](auto value) { return from_integer(Integer(value), unit_of(*column.type())); };
  switch (column.type_id()) {
    case Type::INT8:
      return integer(raw<arrow::Int8Array>(column, row));
    case Type::INT16:
      return integer(raw<arrow::Int16Array>(column, row));
    case Type::INT32:
      return integer(raw<arrow::Int32Array>(column, row));
    case Type::INT64:
      return integer(raw<arrow::Int64Array>(column, row));
    case Type::UINT8:
      return integer(raw<arrow::UInt8Array>(column, row));
    case Type::UINT16:
      return integer(raw<arrow::UInt16Array>(column, row));
    case Type::UINT32:
      return integer(raw<arrow::UInt32Array>(column, row));
    case Type::UINT64:
      return integer(raw<arrow::UInt64Array>(column, row));
    case Type::DATE32:
      return integer(raw<arrow::Date32Array>(column, row));
    case Type::DATE64:
      return integer(raw<arrow::Date64Array>(column, row));
    case Type::TIME32:
      return integer(raw<arrow::Time32Array>(column, row));
    case Type::TIME64:
      return integer(raw<arrow::Time64Array>(column, row));
    case Type::TIMESTAMP:
      return integer(raw<arrow::TimestampArray>(column, row));
    case Type::DURATION:
      return integer(raw<arrow::DurationArray>(column, row));
    case Type::HALF_FLOAT:
      return from_double(
          arrow::util::Float16::FromBits(raw<arrow::HalfFloatArray>(column, row)).ToDouble());
    case Type::FLOAT:
      return from_double(static_cast<double>(raw<arrow::FloatArray>(column, row)));
    case Type::DOUBLE:
      return from_double(raw<arrow::DoubleArray>(column, row));
    default:
      MANTA_CHECK(arrow::is_decimal(column.type_id()), "a column without exact values");
      return integer(decimal_integer(column, row));
  }
}

Floor floor_in(const ExactNumber& number, const arrow::DataType& type, const Unit& unit) {
  if (type.id() == Type::FLOAT) return floor_of_floating<float>(number);
  if (type.id() == Type::DOUBLE) return floor_of_floating<double>(number);
  Integer smallest, largest;
  if (arrow::is_decimal(type.id())) {
    largest = power(10, static_cast<const arrow::DecimalType&>(type).precision()) - 1;
    smallest = -largest;
  } else if (arrow::is_signed_integer(type.id())) {
    largest = power(2, type.bit_width() - 1) - 1;
    smallest = -largest - 1;
  } else {
    largest = power(2, type.bit_width()) - 1;
  }
  if (number.kind == Kind::kMinusInfinity) return {};
  if (number.kind == Kind::kPlusInfinity) return {make_scalar(largest, type), false};
  // The number of units: the quotient is rounded towards zero.
  Integer dividend = number.numerator * unit.denominator;
  Integer divisor = number.denominator * unit.numerator;
  (unit.decimals < 0 ? divisor : dividend) *= power(10, std::abs(unit.decimals));
  Integer whole = dividend / divisor;
  bool exact = whole * divisor == dividend;
  if (!exact && dividend < 0) whole -= 1;
  if (whole < smallest) return {};
  if (whole > largest) return {make_scalar(largest, type), false};
  return {make_scalar(whole, type), exact};
}

}  // namespace manta::data
