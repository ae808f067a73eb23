#include <arrow/api.h>
#include <arrow/util/decimal.h>
#include <arrow/util/float16.h>

#include <unordered_map>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/json_lines_internal.h"
#include "manta/data/json_values_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

constexpr const char* kBuilding = "read_json: building columns";
constexpr size_t kShownOfValue = 80;

/// A builder of Arrow's, and those inside it.
struct ColumnNode {
  std::string name;
  arrow::ArrayBuilder* builder = nullptr;
  std::vector<ColumnNode> children;  // of a struct its fields, of a list its elements
  std::unordered_map<std::string, size_t> places;
  std::vector<int64_t> object_of_field;  // of a struct: the last object that had the field
  int64_t objects = 0;

  ColumnNode(std::string column, arrow::ArrayBuilder* into)
      : name(std::move(column)), builder(into) {
    if (auto* list = dynamic_cast<arrow::ListBuilder*>(into)) {
      children.emplace_back("", list->value_builder());
    }
    if (auto* object = dynamic_cast<arrow::StructBuilder*>(into)) {
      for (int i = 0; i < object->num_fields(); ++i) {
        std::string field = object->type()->field(i)->name();
        places.emplace(field, children.size());
        children.emplace_back(std::move(field), object->field_builder(i));
      }
      object_of_field.resize(children.size(), -1);
    }
  }
  const arrow::DataType& type() const { return *type_; }

 private:
  std::shared_ptr<arrow::DataType> type_ = builder->type();
};

template <class Builder, class Value>
bool append_as(ColumnNode& node, Value value) {
  check(static_cast<Builder*>(node.builder)->Append(value), kBuilding);
  return true;
}

template <class Type>
bool append_number(ColumnNode& node, std::string_view text) {
  typename Type::c_type value{};
  return parse_number(text, value) &&
         append_as<typename arrow::TypeTraits<Type>::BuilderType>(node, value);
}

template <class Type>
bool append_decimal(ColumnNode& node, std::string_view text) {
  using Builder = typename arrow::TypeTraits<Type>::BuilderType;
  typename Builder::ValueType value;
  return parse_decimal(static_cast<const Type&>(node.type()), text, value) &&
         append_as<Builder>(node, value);
}

bool append_half(ColumnNode& node, std::string_view text) {
  double value = 0;
  if (!parse_number(text, value)) return false;
  auto half = arrow::util::Float16::FromDouble(value);
  return half.is_finite() && append_as<arrow::HalfFloatBuilder>(node, half.bits());
}

// Texts and bytes, of any length.
bool is_text(const ColumnNode& node) {
  return node.type().id() == arrow::Type::STRING || node.type().id() == arrow::Type::LARGE_STRING;
}

bool append_text(ColumnNode& node, std::string_view text) {
  switch (node.type().id()) {
    case arrow::Type::STRING:
      return append_as<arrow::StringBuilder>(node, text);
    case arrow::Type::LARGE_STRING:
      return append_as<arrow::LargeStringBuilder>(node, text);
    case arrow::Type::BINARY:
      return append_as<arrow::BinaryBuilder>(node, text);
    case arrow::Type::LARGE_BINARY:
      return append_as<arrow::LargeBinaryBuilder>(node, text);
    default:
      break;
  }
  int64_t time = 0;
  if (!parse_time(node.type(), text, time)) return false;
  switch (node.type().id()) {
    case arrow::Type::DATE32:
      return append_as<arrow::Date32Builder>(node, static_cast<int32_t>(time));
    case arrow::Type::DATE64:
      return append_as<arrow::Date64Builder>(node, time);
    case arrow::Type::TIME32:
      return append_as<arrow::Time32Builder>(node, static_cast<int32_t>(time));
    case arrow::Type::TIME64:
      return append_as<arrow::Time64Builder>(node, time);
    default:
      return append_as<arrow::TimestampBuilder>(node, time);
  }
}

// Returns whether the number is one of the type.
bool append_number(ColumnNode& node, std::string_view text) {
  switch (node.type().id()) {
    case arrow::Type::INT8:
      return append_number<arrow::Int8Type>(node, text);
    case arrow::Type::INT16:
      return append_number<arrow::Int16Type>(node, text);
    case arrow::Type::INT32:
      return append_number<arrow::Int32Type>(node, text);
    case arrow::Type::INT64:
      return append_number<arrow::Int64Type>(node, text);
    case arrow::Type::UINT8:
      return append_number<arrow::UInt8Type>(node, text);
    case arrow::Type::UINT16:
      return append_number<arrow::UInt16Type>(node, text);
    case arrow::Type::UINT32:
      return append_number<arrow::UInt32Type>(node, text);
    case arrow::Type::UINT64:
      return append_number<arrow::UInt64Type>(node, text);
    case arrow::Type::HALF_FLOAT:
      return append_half(node, text);
    case arrow::Type::DURATION:
      return append_number<arrow::DurationType>(node, text);
    case arrow::Type::DECIMAL128:
      return append_decimal<arrow::Decimal128Type>(node, text);
    case arrow::Type::DECIMAL256:
      return append_decimal<arrow::Decimal256Type>(node, text);
    case arrow::Type::FLOAT:
      return append_number<arrow::FloatType>(node, text);
    case arrow::Type::DOUBLE:
      return append_number<arrow::DoubleType>(node, text);
    default:
      return false;
  }
}

class RowBuilder final : public JsonTokens {
 public:
  RowBuilder(const JsonRowsOptions& options, int64_t piece_rows, const TakeBatch& take)
      : options_(options),
        piece_rows_(piece_rows),
        take_(take),
        builder_(check(arrow::MakeBuilder(arrow::struct_(options.schema->fields())), kBuilding)),
        root_("", builder_.get()) {}

  void null() override {
    if (ColumnNode* node = next()) check(node->builder->AppendNull(), kBuilding);
  }
  void boolean(bool value) override {
    ColumnNode* node = next();
    if (!node) return;
    const char* text = value ? "true" : "false";
    if (node->type().id() == arrow::Type::BOOL) {
      append_as<arrow::BooleanBuilder>(*node, value);
    } else if (!append_as_text(*node, text)) {
      throw_bad_value(*node, text);
    }
  }
  void number(std::string_view text) override {
    ColumnNode* node = next();
    if (!node || append_number(*node, text) || append_as_text(*node, text)) return;
    throw_bad_value(*node, text);
  }
  void text(std::string_view text) override {
    ColumnNode* node = next();
    if (!node || append_text(*node, text)) return;
    throw_bad_value(*node, str('"', text, '"'));
  }
  void key(std::string_view name) override {
    if (skipping_) return;
    ColumnNode& object = *inside_.back();
    name_.assign(name);
    auto found = object.places.find(name_);
    if (found == object.places.end()) {
      bool known =
          options_.ignore_unknown || (inside_.size() == 1 && options_.known.contains(name_));
      if (!known) throw_unknown();
      field_ = nullptr;
      return;
    }
    int64_t& last = object.object_of_field[found->second];
    if (last == object.objects) {
      throw Error(ErrorKind::kCorrupt,
                  str("an object has the field '", printable(name_), "' twice"));
    }
    last = object.objects;
    field_ = &object.children[found->second];
  }
  void begin_object() override {
    if (inside_.empty()) {
      begin(root_);
      return;
    }
    begin_nested(arrow::Type::STRUCT, "an object");
  }
  void begin_list() override { begin_nested(arrow::Type::LIST, "a list"); }
  void end_list() override { end(); }
  void end_object() override {
    if (skipping_ == 0) {
      ColumnNode& object = *inside_.back();
      for (size_t i = 0; i < object.children.size(); ++i) {
        if (object.object_of_field[i] == object.objects) continue;
        check(object.children[i].builder->AppendNull(), kBuilding);
      }
      ++object.objects;
    }
    end();
    if (inside_.empty() && builder_->length() == piece_rows_) flush();
  }

  void flush() {
    if (builder_->length() == 0) return;
    auto rows = std::static_pointer_cast<arrow::StructArray>(check(builder_->Finish(), kBuilding));
    take_(arrow::RecordBatch::Make(options_.schema, rows->length(), rows->fields()));
  }

 private:
  // Where the next value goes; null if it is skipped.
  ColumnNode* next() {
    if (skipping_) return nullptr;
    ColumnNode& container = *inside_.back();
    return container.type().id() == arrow::Type::LIST ? &container.children[0] : field_;
  }
  void begin_nested(arrow::Type::type id, const char* what) {
    ColumnNode* node = next();
    if (!node) {
      ++skipping_;
      return;
    }
    if (node->type().id() != id) throw_bad_value(*node, what);
    begin(*node);
  }
  void begin(ColumnNode& node) {
    if (node.type().id() == arrow::Type::LIST) {
      check(static_cast<arrow::ListBuilder*>(node.builder)->Append(), kBuilding);
    } else {
      check(static_cast<arrow::StructBuilder*>(node.builder)->Append(), kBuilding);
    }
    inside_.push_back(&node);
  }
  void end() {
    if (skipping_ > 0) {
      --skipping_;
    } else {
      inside_.pop_back();
    }
  }

  // If the type is string, numbers and booleans become texts: for example ids of both kinds.
  static bool append_as_text(ColumnNode& node, std::string_view text) {
    return is_text(node) && append_text(node, text);
  }

  std::string path(const ColumnNode& node) const {
    std::string text;
    for (size_t i = 1; i < inside_.size(); ++i) add_name(text, inside_[i]->name);
    add_name(text, node.name);
    return text;
  }
  static void add_name(std::string& path, const std::string& name) {
    if (!name.empty()) path += (path.empty() ? "" : ".") + printable(name);
  }
  std::string column() const { return printable(inside_.size() > 1 ? inside_[1]->name : name_); }
  [[noreturn]] void throw_bad_value(const ColumnNode& node, std::string_view value) const {
    throw Error(ErrorKind::kInvalidArgument,
                str("'", path(node), "' has the value ", printable(value, kShownOfValue),
                    ", which is no ", type_to_json(node.type()).dump(),
                    ", the type that it was given or that the first lines have; give column '",
                    column(), "' another type: .column_types = {{\"", column(), "\", ...}}"));
  }
  [[noreturn]] void throw_unknown() const {
    bool of_row = inside_.size() == 1;
    throw Error(
        ErrorKind::kInvalidArgument,
        str(of_row ? "the field '" : str("in '", column(), "' the field '"), printable(name_),
            "' is not in the first lines, which decide what columns "
            "there are; give column '",
            column(), "' a type: .column_types = {{\"", column(),
            "\", ...}}, or set .ignore_unknown_fields"));
  }

  const JsonRowsOptions& options_;
  const int64_t piece_rows_;
  const TakeBatch& take_;
  std::unique_ptr<arrow::ArrayBuilder> builder_;
  ColumnNode root_;
  std::vector<ColumnNode*> inside_;  // lists and objects that are open
  ColumnNode* field_ = nullptr;      // of the last key; null: it is skipped
  std::string name_;                 // the last key
  int skipping_ = 0;                 // open lists and objects in the value that is skipped
};

}  // namespace

void read_lines(std::string_view text, const PartFile& file, int64_t offset,
                const JsonRowsOptions& options, int64_t piece_rows, const TakeBatch& take) {
  RowBuilder builder(options, piece_rows, take);
  parse_lines(text, file, offset, builder);
  builder.flush();
}

}  // namespace manta::data
