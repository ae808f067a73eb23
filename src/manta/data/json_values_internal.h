#pragma once

#include <arrow/api.h>
#include <arrow/util/value_parsing.h>

#include <charconv>
#include <string_view>

/// Texts as values of a type: whether they fit, and what they are.
namespace manta::data {

template <class T>
bool parse_number(std::string_view text, T& value) {
  auto parsed = std::from_chars(text.data(), text.data() + text.size(), value);
  return parsed.ec == std::errc() && parsed.ptr == text.data() + text.size();
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
