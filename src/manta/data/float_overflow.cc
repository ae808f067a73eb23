#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "manta/data/float_overflow_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

bool is_infinite(uint16_t half) { return (half & 0x7fff) == 0x7c00; }
bool is_infinite(float number) { return std::isinf(number); }
bool is_infinite(double number) { return std::isinf(number); }

bool is_infinite_at(const arrow::Array& numbers, int64_t row) {
  switch (numbers.type_id()) {
    case arrow::Type::HALF_FLOAT:
      return is_infinite(static_cast<const arrow::HalfFloatArray&>(numbers).Value(row));
    case arrow::Type::FLOAT:
      return is_infinite(static_cast<const arrow::FloatArray&>(numbers).Value(row));
    case arrow::Type::DOUBLE:
      return is_infinite(static_cast<const arrow::DoubleArray&>(numbers).Value(row));
    default:
      return false;
  }
}

// "inf" and "-Infinity" have no digit; every finite number has one.
bool says_infinity(const std::string& text) {
  return std::none_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

bool was_infinite(const arrow::Array& given, int64_t row, const std::string& text) {
  bool is_text = arrow::is_base_binary_like(given.type_id()) ||
                 arrow::is_binary_view_like(given.type_id()) ||
                 given.type_id() == arrow::Type::DICTIONARY;
  return is_text ? says_infinity(text) : is_infinite_at(given, row);
}

template <class ArrayType>
std::optional<std::string> find(const arrow::Array& given, const ArrayType& made) {
  const auto* values = made.raw_values();
  for (int64_t row = 0; row < made.length(); ++row) {
    if (!is_infinite(values[row]) || made.IsNull(row)) continue;
    std::string text = check(given.GetScalar(row), "a value that was cast")->ToString();
    if (!was_infinite(given, row, text)) return text;
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> first_overflow(const std::shared_ptr<arrow::Array>& given,
                                          const std::shared_ptr<arrow::Array>& made) {
  switch (made->type_id()) {
    case arrow::Type::HALF_FLOAT:
      return find(*given, static_cast<const arrow::HalfFloatArray&>(*made));
    case arrow::Type::FLOAT:
      return find(*given, static_cast<const arrow::FloatArray&>(*made));
    case arrow::Type::DOUBLE:
      return find(*given, static_cast<const arrow::DoubleArray&>(*made));
    default:
      return std::nullopt;
  }
}

}  // namespace manta::data
