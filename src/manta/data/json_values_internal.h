#pragma once

#include <arrow/api.h>
#include <arrow/util/value_parsing.h>

#include <algorithm>
#include <charconv>
#include <string>
#include <string_view>

/// Converts texts to values of a type, if they fit.
namespace manta::data {

template <class T>
bool parse_number(std::string_view text, T& value) {
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
}

/// A decimal of as many digits as the type has, or fewer. Does not use Arrow's rescaling, which
/// takes numbers that are too large modulo a power of 2, and reads beyond its tables for large
/// exponents.
template <class Value>
bool parse_decimal(const arrow::DecimalType& type, std::string_view text, Value& value) {
  bool negative = text.starts_with('-');
  if (negative || text.starts_with('+')) text.remove_prefix(1);
  int32_t exponent = 0;
  if (size_t end = text.find_first_of("eE"); end != std::string_view::npos) {
    std::string_view power = text.substr(end + 1);
    if (power.starts_with('+') && !power.starts_with("+-")) power.remove_prefix(1);
    if (!parse_number(power, exponent)) return false;
    text = text.substr(0, end);
  }
  size_t point = std::min(text.find('.'), text.size());
  std::string digits(text.substr(0, point));
  int64_t zeros = int64_t{type.scale()} + exponent;  // zeros after the digits, in units of the type
  if (point < text.size()) {
    digits += text.substr(point + 1);
    zeros -= static_cast<int64_t>(text.size() - point - 1);
  }
  if (digits.empty() || digits.find_first_not_of("0123456789") != std::string::npos) return false;
  digits.erase(0, digits.find_first_not_of('0'));
  if (digits.empty()) {
    value = Value(0);
    return true;
  }
  for (; zeros < 0 && digits.back() == '0'; ++zeros) digits.pop_back();
  if (zeros < 0 || static_cast<int64_t>(digits.size()) + zeros > type.precision()) return false;
  digits.append(static_cast<size_t>(zeros), '0');
  auto parsed = Value::FromString(digits);
  if (!parsed.ok()) return false;
  value = *parsed;
  if (negative) value.Negate();
  return true;
}

/// Dates, times of day and timestamps, as in CSV: a timestamp has an offset if its type has a zone,
/// and only then.
inline bool parse_time(const arrow::DataType& type, std::string_view text, int64_t& value) {
  switch (type.id()) {
    case arrow::Type::DATE32: {
      int32_t days = 0;
      bool fits = arrow::internal::ParseValue<arrow::Date32Type>(text.data(), text.size(), &days);
      value = days;
      return fits;
    }
    case arrow::Type::DATE64:
      return arrow::internal::ParseValue<arrow::Date64Type>(text.data(), text.size(), &value);
    case arrow::Type::TIME64:
      return arrow::internal::ParseValue(static_cast<const arrow::Time64Type&>(type), text.data(),
                                         text.size(), &value);
    case arrow::Type::TIME32: {
      int32_t time = 0;
      bool fits = arrow::internal::ParseValue(static_cast<const arrow::Time32Type&>(type),
                                              text.data(), text.size(), &time);
      value = time;
      return fits;
    }
    case arrow::Type::TIMESTAMP: {
      const auto& timestamp = static_cast<const arrow::TimestampType&>(type);
      bool has_offset = false;
      return arrow::internal::ParseTimestampISO8601(text.data(), text.size(), timestamp.unit(),
                                                    &value, &has_offset) &&
             has_offset == !timestamp.timezone().empty();
    }
    default:
      return false;
  }
}

}  // namespace manta::data
