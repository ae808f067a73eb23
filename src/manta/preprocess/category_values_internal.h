#pragma once

#include <arrow/api.h>
#include <arrow/util/decimal.h>
#include <arrow/util/float16.h>

#include <bit>
#include <cmath>
#include <optional>
#include <string>
#include <string_view>

#include "manta/base/error_internal.h"
#include "manta/base/json.h"

/// Columns whose values can be categories, value by value.
namespace manta::preprocess {

/// The kind of a column's categories. Numbers of all kinds are one family: 1, 1.0 and true are the
/// same category. The kind decides how they are written, and which type comes back from codes. A
/// time (date, timestamp, time of day, duration) is an integer in its unit; a decimal is the text
/// of its value, such as "-0.25".
enum class CategoryKind {
  kNone,
  kBoolean,
  kInteger,
  kUnsigned,
  kFloat,
  kText,
  kList,
  kTime,
  kDecimal
};

bool is_number(CategoryKind kind);

/// A kind and, for times and decimals, the type that holds them; null for others.
struct CategoryType {
  CategoryKind kind = CategoryKind::kNone;
  std::shared_ptr<arrow::DataType> exact = nullptr;

  /// "bool", "int64", "uint64", "float64", "string", "list", "timestamp[us]", "decimal128(9, 2)".
  std::string name() const;
  static std::optional<CategoryType> named(const std::string& name);
  /// Whether a value of one can be equal to one of the other: all numbers; all decimals; dates;
  /// times of day; durations; timestamps with a zone; those without.
  bool is_comparable(const CategoryType& other) const;
};

/// The category type of a column's type; for a list, kList. Throws Error(kInvalidArgument), which
/// begins with `who` and names the column, if its values cannot be categories: binary, lists of
/// lists, structs.
CategoryType category_type(const arrow::DataType& type, const std::string& column,
                           const std::string& who);
/// For a list, the category type of its elements.
CategoryType element_category_type(const arrow::DataType& type, const std::string& column,
                                   const std::string& who);
/// Throws if a whole list of this type cannot be a category: one of times or decimals.
void require_whole_lists(const arrow::DataType& type, const std::string& column,
                         const std::string& who);

/// The factors that convert a time of type `from` to type `to`: multiply by `times`, then divide by
/// `over`.
struct TimeScale {
  int64_t times = 1, over = 1;
};
TimeScale time_scale(const arrow::DataType& from, const arrow::DataType& to);

/// "12.5" of "1250" and 2: as short as possible.
std::string decimal_text(std::string digits, int32_t scale);
/// The decimal at the scale of a type. Nothing if the text is not as short as possible, or does not
/// fit.
std::optional<arrow::Decimal256> decimal_of(const std::string& text, const arrow::DataType& type);

/// A list column's rows as ranges of one array.
struct ListRows {
  static std::optional<ListRows> of(const std::shared_ptr<arrow::Array>& column);

  int64_t begin(int64_t row) const;
  int64_t end(int64_t row) const;

  std::shared_ptr<arrow::Array> values;  ///< Without encodings.

 private:
  std::shared_ptr<arrow::Array> column_;
};

/// For each value of a column without encodings that is not a list, calls one of:
///   take.null(row), also for NaN
///   take.integer(row, int64_t), also for true, 3.0 and -0.0, and for times
///   take.huge(row, uint64_t), of 2^63 or more
///   take.fraction(row, double), any other float64
///   take.text(row, string_view), also for decimals
/// for the rows from `begin` to `end`.
template <class Take>
void for_each_value(const arrow::Array& column, int64_t begin, int64_t end, Take&& take);

/// The value as JSON, by a `Take` that keeps the last one.
struct JsonOfValue {
  void null(int64_t) { value = nullptr; }
  void integer(int64_t, int64_t x) { value = x; }
  void huge(int64_t, uint64_t x) { value = x; }
  void fraction(int64_t, double x) { value = x; }
  void text(int64_t, std::string_view x) { value = std::string(x); }
  Json value;
};
/// A list as JSON. Nothing if it, or one of its elements, is null.
std::optional<Json> list_as_json(const ListRows& lists, int64_t row);

// ---- Implementation.

namespace detail {

template <class ArrowType, class Take>
void each_integer(const arrow::Array& column, int64_t begin, int64_t end, Take& take) {
  const auto* values = static_cast<const arrow::NumericArray<ArrowType>&>(column).raw_values();
  bool has_nulls = column.null_count() > 0;
  for (int64_t i = begin; i < end; ++i) {
    if (has_nulls && column.IsNull(i)) {
      take.null(i);
      continue;
    }
    if constexpr (std::is_same_v<typename ArrowType::c_type, uint64_t>) {
      if (values[i] > static_cast<uint64_t>(INT64_MAX)) {
        take.huge(i, values[i]);
        continue;
      }
    }
    take.integer(i, static_cast<int64_t>(values[i]));
  }
}

template <class Take>
void take_float(int64_t row, double x, Take& take) {
  constexpr double kBound = 9223372036854775808.0;  // 2^63
  if (std::isnan(x)) {
    take.null(row);
  } else if (x >= -kBound && x < kBound && x == std::trunc(x)) {
    take.integer(row, static_cast<int64_t>(x));
  } else if (x >= kBound && x < 2 * kBound) {
    take.huge(row, static_cast<uint64_t>(x));
  } else {
    take.fraction(row, x);
  }
}

template <class ArrowType, class Take>
void each_float(const arrow::Array& column, int64_t begin, int64_t end, Take& take) {
  const auto* values = static_cast<const arrow::NumericArray<ArrowType>&>(column).raw_values();
  for (int64_t i = begin; i < end; ++i) {
    if (column.IsNull(i)) {
      take.null(i);
    } else if constexpr (std::is_same_v<ArrowType, arrow::HalfFloatType>) {
      take_float(i, arrow::util::Float16::FromBits(values[i]).ToDouble(), take);
    } else {
      take_float(i, static_cast<double>(values[i]), take);
    }
  }
}

template <class Array, class Take>
void each_text(const arrow::Array& column, int64_t begin, int64_t end, Take& take) {
  const auto& texts = static_cast<const Array&>(column);
  bool has_nulls = column.null_count() > 0;
  for (int64_t i = begin; i < end; ++i) {
    if (has_nulls && column.IsNull(i)) {
      take.null(i);
    } else {
      take.text(i, texts.GetView(i));
    }
  }
}

template <class Decimal, class Take>
void each_decimal(const arrow::Array& column, int64_t begin, int64_t end, Take& take) {
  const auto& values = static_cast<const arrow::FixedSizeBinaryArray&>(column);
  int32_t scale = static_cast<const arrow::DecimalType&>(*column.type()).scale();
  for (int64_t i = begin; i < end; ++i) {
    if (column.IsNull(i)) {
      take.null(i);
    } else {
      take.text(i, decimal_text(Decimal(values.GetValue(i)).ToIntegerString(), scale));
    }
  }
}

}  // namespace detail

template <class Take>
void for_each_value(const arrow::Array& column, int64_t begin, int64_t end, Take&& take) {
  using namespace detail;
  switch (column.type_id()) {
    case arrow::Type::NA:
      for (int64_t i = begin; i < end; ++i) take.null(i);
      return;
    case arrow::Type::BOOL:
      for (int64_t i = begin; i < end; ++i) {
        if (column.IsNull(i)) {
          take.null(i);
        } else {
          take.integer(i, static_cast<const arrow::BooleanArray&>(column).Value(i));
        }
      }
      return;
    case arrow::Type::INT8:
      return each_integer<arrow::Int8Type>(column, begin, end, take);
    case arrow::Type::INT16:
      return each_integer<arrow::Int16Type>(column, begin, end, take);
    case arrow::Type::INT32:
      return each_integer<arrow::Int32Type>(column, begin, end, take);
    case arrow::Type::INT64:
      return each_integer<arrow::Int64Type>(column, begin, end, take);
    case arrow::Type::UINT8:
      return each_integer<arrow::UInt8Type>(column, begin, end, take);
    case arrow::Type::UINT16:
      return each_integer<arrow::UInt16Type>(column, begin, end, take);
    case arrow::Type::UINT32:
      return each_integer<arrow::UInt32Type>(column, begin, end, take);
    case arrow::Type::UINT64:
      return each_integer<arrow::UInt64Type>(column, begin, end, take);
    case arrow::Type::HALF_FLOAT:
      return each_float<arrow::HalfFloatType>(column, begin, end, take);
    case arrow::Type::FLOAT:
      return each_float<arrow::FloatType>(column, begin, end, take);
    case arrow::Type::DOUBLE:
      return each_float<arrow::DoubleType>(column, begin, end, take);
    case arrow::Type::STRING:
      return each_text<arrow::StringArray>(column, begin, end, take);
    case arrow::Type::LARGE_STRING:
      return each_text<arrow::LargeStringArray>(column, begin, end, take);
    case arrow::Type::STRING_VIEW:
      return each_text<arrow::StringViewArray>(column, begin, end, take);
    case arrow::Type::DATE32:
      return each_integer<arrow::Date32Type>(column, begin, end, take);
    case arrow::Type::DATE64:
      return each_integer<arrow::Date64Type>(column, begin, end, take);
    case arrow::Type::TIME32:
      return each_integer<arrow::Time32Type>(column, begin, end, take);
    case arrow::Type::TIME64:
      return each_integer<arrow::Time64Type>(column, begin, end, take);
    case arrow::Type::TIMESTAMP:
      return each_integer<arrow::TimestampType>(column, begin, end, take);
    case arrow::Type::DURATION:
      return each_integer<arrow::DurationType>(column, begin, end, take);
    case arrow::Type::DECIMAL32:
      return each_decimal<arrow::Decimal32>(column, begin, end, take);
    case arrow::Type::DECIMAL64:
      return each_decimal<arrow::Decimal64>(column, begin, end, take);
    case arrow::Type::DECIMAL128:
      return each_decimal<arrow::Decimal128>(column, begin, end, take);
    case arrow::Type::DECIMAL256:
      return each_decimal<arrow::Decimal256>(column, begin, end, take);
    default:
      MANTA_CHECK(false, "values of a type that category_type refuses");
  }
}

}  // namespace manta::preprocess
