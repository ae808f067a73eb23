#include <arrow/api.h>

#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

enum class ItemKind { kNull, kBool, kInteger, kNumber, kText };

const char* name_of(ItemKind kind) {
  constexpr const char* kNames[] = {"null", "a boolean", "an integer", "a number", "a text"};
  return kNames[static_cast<int>(kind)];
}

// One field of all items.
class ItemColumn {
 public:
  explicit ItemColumn(std::string name) : name_(std::move(name)) {}

  void add(const Json* value, size_t item) {
    values_.push_back(value && !value->is_null() ? value : nullptr);
    if (!values_.back()) return;
    ItemKind kind = kind_of(*value, item);
    if (kind_ == ItemKind::kNull) {
      kind_ = kind;
      first_ = item;
    }
    bool both_numbers = is_number(kind_) && is_number(kind);
    if (both_numbers) kind_ = std::max(kind_, kind);
    if (!both_numbers && kind != kind_) {
      fail(item, *value,
           str("is ", name_of(kind), ", but item ", first_, " has ", name_of(kind_), " there"));
    }
  }

  std::shared_ptr<arrow::Array> finish() const {
    switch (kind_) {
      case ItemKind::kNull:
        return check(arrow::MakeArrayOfNull(arrow::null(), static_cast<int64_t>(values_.size())),
                     "from_items");
      case ItemKind::kBool:
        return build<arrow::BooleanBuilder, bool>();
      case ItemKind::kInteger:
        return build<arrow::Int64Builder, int64_t>();
      case ItemKind::kNumber:
        require_exact();
        return build<arrow::DoubleBuilder, double>();
      default:
        return build<arrow::StringBuilder, std::string>();
    }
  }

  const std::string& name() const { return name_; }

 private:
  static bool is_number(ItemKind kind) {
    return kind == ItemKind::kInteger || kind == ItemKind::kNumber;
  }

  ItemKind kind_of(const Json& value, size_t item) const {
    if (value.is_boolean()) return ItemKind::kBool;
    if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
      fail(item, value, "does not fit into an int64");
    }
    if (value.is_number_integer()) return ItemKind::kInteger;
    if (value.is_number()) return ItemKind::kNumber;
    if (!value.is_string()) {
      fail(item, value,
           "is no boolean, number or text; make a table of nested values, and use from_arrow");
    }
    if (!is_utf8(value)) fail(item, value, "is not UTF-8");
    return ItemKind::kText;
  }

  // Checks integers that become float64 because other values have a fraction.
  void require_exact() const {
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!values_[i] || !values_[i]->is_number_integer()) continue;
      auto value = values_[i]->get<int64_t>();
      if (static_cast<__int128>(static_cast<double>(value)) == value) continue;
      fail(i, *values_[i],
           "would be rounded: it is too large an integer for a column in which others have a "
           "fraction");
    }
  }

  [[noreturn]] void fail(size_t item, const Json& value, const std::string& what) const {
    throw Error(ErrorKind::kInvalidArgument, str("from_items: '", name_, "' of item ", item, ", ",
                                                 short_text(value), ", ", what));
  }

  template <class Builder, class T>
  std::shared_ptr<arrow::Array> build() const {
    Builder builder;
    for (const Json* value : values_) {
      check(value ? builder.Append(value->get<T>()) : builder.AppendNull(), "from_items");
    }
    return check(builder.Finish(), "from_items");
  }

  std::string name_;
  std::vector<const Json*> values_;  // null pointers where there is no value
  ItemKind kind_ = ItemKind::kNull;
  size_t first_ = 0;  // the item that decided the kind
};

std::vector<ItemColumn> columns_of(const std::vector<Json>& items) {
  std::set<std::string> names;
  for (size_t i = 0; i < items.size(); ++i) {
    if (items[i].is_object() != items[0].is_object()) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("from_items: item ", i, ", ", short_text(items[i]), ", is ",
                      items[i].is_object() ? "an object" : "no object", ", unlike item 0"));
    }
    if (!items[i].is_object()) continue;
    for (const auto& [name, value] : items[i].items()) names.insert(name);
  }
  if (!items[0].is_object()) return {ItemColumn("item")};
  if (names.empty())
    throw Error(ErrorKind::kInvalidArgument, "from_items: the items have no fields");
  std::vector<ItemColumn> columns;
  for (const auto& name : names) columns.emplace_back(name);
  return columns;
}

}  // namespace

Dataset from_items(const std::vector<Json>& items) {
  if (items.empty()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        "from_items: there is no item, and so no column; use from_arrow for a table without "
        "rows");
  }
  auto columns = columns_of(items);
  arrow::FieldVector fields;
  arrow::ArrayVector arrays;
  for (auto& column : columns) {
    for (size_t i = 0; i < items.size(); ++i) {
      if (!items[i].is_object()) {
        column.add(&items[i], i);
      } else {
        auto found = items[i].find(column.name());
        column.add(found == items[i].end() ? nullptr : &*found, i);
      }
    }
    arrays.push_back(column.finish());
    fields.push_back(arrow::field(column.name(), arrays.back()->type()));
  }
  return from_arrow(arrow::Table::Make(arrow::schema(fields), arrays));
}

}  // namespace manta::data
