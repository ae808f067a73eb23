#include "manta/base/error_internal.h"
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

// Null: none.
const arrow::DataType* element_type(const arrow::DataType& type) {
  switch (type.id()) {
    case arrow::Type::LIST:
    case arrow::Type::LARGE_LIST:
    case arrow::Type::FIXED_SIZE_LIST:
      return static_cast<const arrow::BaseListType&>(type).value_type().get();
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
    case arrow::Type::DICTIONARY:
      return scalar_kind(*static_cast<const arrow::DictionaryType&>(type).value_type());
    case arrow::Type::RUN_END_ENCODED:
      return scalar_kind(*static_cast<const arrow::RunEndEncodedType&>(type).value_type());
    default:
      return std::nullopt;
  }
}

[[noreturn]] void refuse_type(const arrow::DataType& type, const std::string& column,
                              const std::string& who) {
  throw Error(ErrorKind::kInvalidArgument,
              str(who, ": column '", column, "' is of type ", type.ToString(),
                  ", whose values cannot be categories; these can: texts, integers, booleans, "
                  "floating-point numbers, and lists of them. Cast it to string or int64 before"));
}

}  // namespace

const char* kind_name(CategoryKind kind) {
  for (const auto& [one, name] : kKindNames) {
    if (one == kind) return name;
  }
  return "";
}

std::optional<CategoryKind> kind_named(const std::string& name) {
  for (const auto& [kind, one] : kKindNames) {
    if (one == name) return kind;
  }
  return std::nullopt;
}

bool is_number(CategoryKind kind) {
  return kind >= CategoryKind::kBoolean && kind <= CategoryKind::kFloat;
}

CategoryKind kind_of(const arrow::DataType& type, const std::string& column,
                     const std::string& who) {
  if (const auto* element = element_type(type)) {
    if (!scalar_kind(*element)) refuse_type(type, column, who);
    return CategoryKind::kList;
  }
  auto kind = scalar_kind(type);
  if (!kind) refuse_type(type, column, who);
  return *kind;
}

CategoryKind element_kind(const arrow::DataType& type, const std::string& column,
                          const std::string& who) {
  const auto* element = element_type(type);
  return kind_of(element ? *element : type, column, who);
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
