#include "manta/base/error_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/preprocess/category_values_internal.h"

namespace manta::preprocess {
namespace {

struct KindName {
  CategoryKind kind;
  const char* name;
};
constexpr KindName kKindNames[] = {
    {CategoryKind::kNone, "null"},     {CategoryKind::kBoolean, "bool"},
    {CategoryKind::kInteger, "int64"}, {CategoryKind::kUnsigned, "uint64"},
    {CategoryKind::kFloat, "float64"}, {CategoryKind::kText, "string"},
    {CategoryKind::kList, "list"},
};

// Null if there is none.
std::shared_ptr<arrow::DataType> element_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return static_cast<const arrow::BaseListType&>(type).value_type();
    default:
      return nullptr;
  }
}

std::optional<CategoryKind> scalar_kind(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::NA:
      return CategoryKind::kNone;
    case arrow::Type::BOOL:
      return CategoryKind::kBoolean;
    case arrow::Type::INT8:
    case arrow::Type::INT16:
    case arrow::Type::INT32:
    case arrow::Type::INT64:
    case arrow::Type::UINT8:
    case arrow::Type::UINT16:
    case arrow::Type::UINT32:
      return CategoryKind::kInteger;
    case arrow::Type::UINT64:
      return CategoryKind::kUnsigned;
    case arrow::Type::HALF_FLOAT:
    case arrow::Type::FLOAT:
    case arrow::Type::DOUBLE:
      return CategoryKind::kFloat;
    case arrow::Type::STRING:
    case arrow::Type::LARGE_STRING:
    case arrow::Type::STRING_VIEW:
      return CategoryKind::kText;
    default:
      return std::nullopt;
  }
}

bool is_time(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
    case arrow::Type::TIMESTAMP:
    case arrow::Type::DURATION:
      return true;
    default:
      return false;
  }
}

std::optional<CategoryType> scalar_type(const std::shared_ptr<arrow::DataType>& type) {
  switch (type->id()) {
    case arrow::Type::DICTIONARY:
      return scalar_type(static_cast<const arrow::DictionaryType&>(*type).value_type());
    case arrow::Type::RUN_END_ENCODED:
      return scalar_type(static_cast<const arrow::RunEndEncodedType&>(*type).value_type());
    default:
      break;
  }
  if (is_time(*type)) return CategoryType{CategoryKind::kTime, type};
  if (arrow::is_decimal(type->id())) {
    // The small ones have no name in files.
    const auto& decimal = static_cast<const arrow::DecimalType&>(*type);
    bool is_small = type->byte_width() < 16;
    return CategoryType{CategoryKind::kDecimal,
                        is_small ? arrow::decimal128(decimal.precision(), decimal.scale()) : type};
  }
  auto kind = scalar_kind(*type);
  return kind ? std::optional(CategoryType{*kind}) : std::nullopt;
}

// The same text for types whose values can be compared with each other.
std::string family(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::DATE32:
    case arrow::Type::DATE64:
      return "date";
    case arrow::Type::TIME32:
    case arrow::Type::TIME64:
      return "time";
    case arrow::Type::TIMESTAMP: {
      bool zoned = !static_cast<const arrow::TimestampType&>(type).timezone().empty();
      return zoned ? "timestamp with a zone" : "timestamp";
    }
    case arrow::Type::DURATION:
      return "duration";
    default:
      return "decimal";
  }
}

// How many nanoseconds a stored 1 stands for.
int64_t unit_of(const arrow::DataType& type) {
  if (type.id() == arrow::Type::DATE32) return 86'400'000'000'000;
  if (type.id() == arrow::Type::DATE64) return 1'000'000;
  arrow::TimeUnit::type unit;
  if (type.id() == arrow::Type::TIMESTAMP) {
    unit = static_cast<const arrow::TimestampType&>(type).unit();
  } else if (type.id() == arrow::Type::DURATION) {
    unit = static_cast<const arrow::DurationType&>(type).unit();
  } else {
    unit = static_cast<const arrow::TimeType&>(type).unit();
  }
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1'000'000'000;
    case arrow::TimeUnit::MILLI:
      return 1'000'000;
    case arrow::TimeUnit::MICRO:
      return 1'000;
    default:
      return 1;
  }
}

[[noreturn]] void refuse_type(const arrow::DataType& type, const std::string& column,
                              const std::string& who) {
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column, "' is of type ", type.ToString(),
                  ", whose values cannot be categories; these can: texts, numbers, booleans, "
                  "dates and times, and lists of them. Cast it to string or int64 before"));
}

}  // namespace

bool is_number(CategoryKind kind) {
  return kind >= CategoryKind::kBoolean && kind <= CategoryKind::kFloat;
}

std::string CategoryType::name() const {
  if (exact) return data::name_of_type(*exact);
  for (const auto& [one, name] : kKindNames) {
    if (one == kind) return name;
  }
  return "";
}

std::optional<CategoryType> CategoryType::named(const std::string& name) {
  for (const auto& [kind, one] : kKindNames) {
    if (one == name) return CategoryType{kind};
  }
  auto type = data::find_type(name);
  auto found = type ? scalar_type(type) : std::nullopt;
  return found && found->exact ? found : std::nullopt;
}

bool CategoryType::is_comparable(const CategoryType& other) const {
  if (kind == CategoryKind::kNone || other.kind == CategoryKind::kNone) return true;
  if (kind != other.kind) return is_number(kind) && is_number(other.kind);
  return !exact || family(*exact) == family(*other.exact);
}

CategoryType category_type(const arrow::DataType& type, const std::string& column,
                           const std::string& who) {
  if (auto element = element_type(type)) {
    if (!scalar_type(element)) refuse_type(type, column, who);
    return {CategoryKind::kList};
  }
  auto found = scalar_type(type.GetSharedPtr());
  if (!found) refuse_type(type, column, who);
  return *found;
}

CategoryType element_category_type(const arrow::DataType& type, const std::string& column,
                                   const std::string& who) {
  auto element = element_type(type);
  return category_type(element ? *element : type, column, who);
}

void require_whole_lists(const arrow::DataType& type, const std::string& column,
                         const std::string& who) {
  auto element = element_type(type);
  if (!element) return;
  auto of = scalar_type(element);
  if (!of || !of->exact) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column, "' is of type ", type.ToString(),
                  ", and whole lists of times or decimals cannot be categories; encode their "
                  "elements (MultiHotEncoder, or OrdinalEncoder with encode_lists), or cast them "
                  "to int64 or string before"));
}

TimeScale time_scale(const arrow::DataType& from, const arrow::DataType& to) {
  int64_t a = unit_of(from), b = unit_of(to);
  return a >= b ? TimeScale{a / b, 1} : TimeScale{1, b / a};
}

std::string decimal_text(std::string digits, int32_t scale) {
  bool negative = digits.starts_with("-");
  if (negative) digits.erase(0, 1);
  if (digits == "0") return digits;
  if (scale < 0) digits.append(static_cast<size_t>(-scale), '0');
  if (scale > 0) {
    auto behind = static_cast<size_t>(scale);
    if (digits.size() <= behind) digits.insert(0, behind + 1 - digits.size(), '0');
    digits.insert(digits.size() - behind, ".");
    digits.erase(digits.find_last_not_of('0') + 1);
    if (digits.back() == '.') digits.pop_back();
  }
  return negative ? "-" + digits : digits;
}

std::optional<arrow::Decimal256> decimal_of(const std::string& text, const arrow::DataType& type) {
  const auto& decimal = static_cast<const arrow::DecimalType&>(type);
  arrow::Decimal256 value;
  int32_t precision = 0, scale = 0;
  if (!arrow::Decimal256::FromString(text, &value, &precision, &scale).ok()) return std::nullopt;
  if (decimal_text(value.ToIntegerString(), scale) != text) return std::nullopt;
  auto rescaled = value.Rescale(scale, decimal.scale());
  if (!rescaled.ok() || !rescaled->FitsInPrecision(decimal.precision())) return std::nullopt;
  return *rescaled;
}

std::optional<ListRows> ListRows::of(const std::shared_ptr<arrow::Array>& column) {
  if (!element_type(*column->type())) return std::nullopt;
  ListRows rows;
  rows.column_ = column;
  switch (column->type_id()) {
    case arrow::Type::LIST:
      rows.values = static_cast<const arrow::ListArray&>(*column).values();
      break;
    case arrow::Type::LARGE_LIST:
      rows.values = static_cast<const arrow::LargeListArray&>(*column).values();
      break;
    default:
      rows.values = static_cast<const arrow::FixedSizeListArray&>(*column).values();
  }
  rows.values = data::plain_column(rows.values);
  return rows;
}

int64_t ListRows::begin(int64_t row) const {
  switch (column_->type_id()) {
    case arrow::Type::LIST:
      return static_cast<const arrow::ListArray&>(*column_).value_offset(row);
    case arrow::Type::LARGE_LIST:
      return static_cast<const arrow::LargeListArray&>(*column_).value_offset(row);
    default:
      return static_cast<const arrow::FixedSizeListArray&>(*column_).value_offset(row);
  }
}

int64_t ListRows::end(int64_t row) const {
  switch (column_->type_id()) {
    case arrow::Type::LIST:
      return static_cast<const arrow::ListArray&>(*column_).value_offset(row + 1);
    case arrow::Type::LARGE_LIST:
      return static_cast<const arrow::LargeListArray&>(*column_).value_offset(row + 1);
    default:
      return static_cast<const arrow::FixedSizeListArray&>(*column_).value_offset(row + 1);
  }
}

std::optional<Json> list_as_json(const ListRows& lists, int64_t row) {
  Json list = Json::array();
  JsonOfValue element;
  for (int64_t i = lists.begin(row); i < lists.end(row); ++i) {
    for_each_value(*lists.values, i, i + 1, element);
    if (element.value.is_null()) return std::nullopt;
    list.push_back(std::move(element.value));
  }
  return list;
}

}  // namespace manta::preprocess
