#include <arrow/api.h>
#include <arrow/io/interfaces.h>

#include <algorithm>
#include <unordered_map>

#include "manta/base/error_internal.h"
#include "manta/data/cell_internal.h"
#include "manta/data/csv_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/json_lines_internal.h"
#include "manta/data/json_values_internal.h"
#include "manta/data/operation_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kSampleBytesOfLines = 1 << 20;

using TypePointer = std::shared_ptr<arrow::DataType>;

const std::vector<TypePointer>& types_of_texts() {
  static const std::vector<TypePointer> types = [] {
    std::vector<TypePointer> all;
    for (const char* name : {"date32", "time32[s]", "timestamp[s]", "timestamp[ns]",
                             "timestamp[s, tz=UTC]", "timestamp[ns, tz=UTC]"}) {
      all.push_back(csv_type(name));
    }
    return all;
  }();
  return types;
}

/// All values that were seen at one place.
struct Shape {
  enum Kind { kNothing, kBoolean, kNumber, kText, kList, kObject };
  Kind kind = kNothing;
  bool negative = false;  // the kinds of numbers that were seen
  bool fraction = false;
  bool unsigned_only = false;      // beyond int64, within uint64
  bool long_integer = false;       // of more than 64 bits
  unsigned texts = (1u << 6) - 1;  // types_of_texts() that all texts fit
  std::unique_ptr<Shape> element;
  std::vector<std::pair<std::string, std::unique_ptr<Shape>>> fields;
  std::unordered_map<std::string, size_t> places;

  Shape& field(std::string_view name) {
    auto [at, added] = places.emplace(std::string(name), fields.size());
    if (added) fields.emplace_back(std::string(name), std::make_unique<Shape>());
    return *fields[at->second].second;
  }
};

const char* name_of(Shape::Kind kind) {
  switch (kind) {
    case Shape::kBoolean:
      return "a boolean";
    case Shape::kNumber:
      return "a number";
    case Shape::kText:
      return "a text";
    case Shape::kList:
      return "a list";
    case Shape::kObject:
      return "an object";
    default:
      return "null";
  }
}

class Inference final : public JsonTokens {
 public:
  explicit Inference(std::vector<std::string> columns,
                     const std::map<std::string, TypePointer>& given)
      : columns_(std::move(columns)), given_(given) {}

  void null() override { value(Shape::kNothing); }
  void boolean(bool) override { value(Shape::kBoolean); }
  void number(std::string_view text) override {
    Shape* shape = value(Shape::kNumber);
    if (!shape) return;
    int64_t small = 0;
    uint64_t large = 0;
    bool integer = text.find_first_not_of("-0123456789") == std::string_view::npos;
    shape->negative |= text.starts_with('-');
    if (!integer) {
      shape->fraction = true;
    } else if (!parse_number(text, small)) {
      (parse_number(text, large) ? shape->unsigned_only : shape->long_integer) = true;
    }
  }
  void text(std::string_view text) override {
    Shape* shape = value(Shape::kText);
    if (!shape) return;
    for (size_t i = 0; i < types_of_texts().size() && shape->texts; ++i) {
      int64_t time = 0;
      if ((shape->texts & (1u << i)) && !parse_time(*types_of_texts()[i], text, time)) {
        shape->texts &= ~(1u << i);
      }
    }
  }
  void key(std::string_view name) override {
    if (skipping_) return;
    if (inside_.size() == 1 && is_skipped(name)) {
      next_ = nullptr;
      return;
    }
    next_ = &inside_.back()->field(name);
    names_.resize(inside_.size() - 1);
    names_.emplace_back(name);
  }
  void begin_object() override {
    if (inside_.empty()) {
      root_.kind = Shape::kObject;
      inside_.push_back(&root_);
      return;
    }
    begin(Shape::kObject);
  }
  void begin_list() override { begin(Shape::kList); }
  void end_object() override { end(); }
  void end_list() override { end(); }

  std::shared_ptr<arrow::Schema> schema() const {
    arrow::FieldVector fields;
    auto add = [&](const std::string& name, const TypePointer& type) {
      fields.push_back(arrow::field(name, type));
    };
    if (!columns_.empty()) {
      for (const auto& name : columns_) add(name, type_of_column(name));
    } else {
      for (const auto& [name, shape] : root_.fields) add(name, type_of_column(name));
      for (const auto& [name, type] : given_) {
        if (!root_.places.contains(name)) add(name, type);
      }
    }
    return arrow::schema(fields);
  }
  std::vector<std::string> seen() const {
    std::vector<std::string> names;
    for (const auto& [name, shape] : root_.fields) names.push_back(name);
    return names;
  }

 private:
  // Columns with a given type, and those that are not wanted, may hold anything.
  bool is_skipped(std::string_view name) {
    std::string column(name);
    bool skipped = given_.contains(column) || (!columns_.empty() && !contains(columns_, column));
    if (skipped) root_.field(name);  // records that the field exists
    return skipped;
  }

  // The place of the next value, which is of this kind; null if it is skipped.
  Shape* value(Shape::Kind kind) {
    if (skipping_) return nullptr;
    Shape* shape = next_;
    if (inside_.back()->kind == Shape::kList) {
      if (!inside_.back()->element) inside_.back()->element = std::make_unique<Shape>();
      shape = inside_.back()->element.get();
    }
    if (!shape || kind == Shape::kNothing) return nullptr;
    if (shape->kind != Shape::kNothing && shape->kind != kind) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("'", place(), "' is ", name_of(kind), " here, and ", name_of(shape->kind),
                      " in a line before; ", advice()));
    }
    shape->kind = kind;
    return shape;
  }
  std::string place() const {
    std::string text;
    for (const auto& name : names_) {
      if (!name.empty()) text += (text.empty() ? "" : ".") + printable(name);
    }
    return text;
  }
  std::string advice() const {
    return str("give column '", printable(names_[0]), "' a type: .column_types = {{\"",
               printable(names_[0]),
               "\", \"string\"}} takes texts, numbers and booleans; or name "
               "the .columns to read without it");
  }
  void begin(Shape::Kind kind) {
    Shape* shape = value(kind);
    if (!shape) {
      ++skipping_;
      return;
    }
    inside_.push_back(shape);
    names_.resize(inside_.size() - 1);  // elements of a list of lists have no name
  }
  void end() {
    if (skipping_ > 0) {
      --skipping_;
      return;
    }
    inside_.pop_back();
  }

  TypePointer type_of_column(const std::string& name) const {
    if (auto found = given_.find(name); found != given_.end()) return found->second;
    auto found = root_.places.find(name);
    if (found == root_.places.end()) {
      throw Error(ErrorKind::kNotFound, no_such_column(name, seen()));
    }
    return type_of(*root_.fields[found->second].second, name);
  }
  static TypePointer type_of(const Shape& shape, const std::string& name) {
    switch (shape.kind) {
      case Shape::kBoolean:
        return arrow::boolean();
      case Shape::kNumber:
        return type_of_number(shape, name);
      case Shape::kText:
        for (size_t i = 0; i < types_of_texts().size(); ++i) {
          if (shape.texts & (1u << i)) return types_of_texts()[i];
        }
        return arrow::utf8();
      case Shape::kList:
        return arrow::list(shape.element ? type_of(*shape.element, name) : arrow::null());
      case Shape::kObject: {
        arrow::FieldVector fields;
        for (const auto& [field, inner] : shape.fields) {
          fields.push_back(arrow::field(field, type_of(*inner, name)));
        }
        return arrow::struct_(fields);
      }
      default:
        return arrow::null();
    }
  }
  static TypePointer type_of_number(const Shape& shape, const std::string& name) {
    if (shape.fraction) return arrow::float64();
    if (!shape.long_integer && !shape.unsigned_only) return arrow::int64();
    if (!shape.long_integer && !shape.negative) return arrow::uint64();
    throw Error(ErrorKind::kInvalidArgument,
                str("'", name,
                    "' has integers that no type of 64 bits holds; give it one: "
                    ".column_types = {{\"",
                    name,
                    "\", \"string\"}} keeps all digits, \"float64\" "
                    "rounds"));
  }

  const std::vector<std::string> columns_;
  const std::map<std::string, TypePointer>& given_;
  Shape root_;
  std::vector<Shape*> inside_;      // lists and objects that are open
  std::vector<std::string> names_;  // of the fields on the way to the next value
  Shape* next_ = nullptr;           // where a field's value goes; null: it is skipped
  int skipping_ = 0;                // open lists and objects in the value that is skipped
};

}  // namespace

JsonSample infer_lines(const PartFile& file, const std::vector<std::string>& columns,
                       const std::map<std::string, TypePointer>& given) {
  int64_t offset = after_mark(file);
  Inference inference(columns, given);
  JsonSample sample;
  // At least one line that is not blank.
  for (int64_t bytes = kSampleBytesOfLines; offset < file.size && !sample.has_rows;) {
    bool at_end = offset + bytes >= file.size;
    auto buffer = read_bytes(file, offset, at_end ? file.size - offset : bytes);
    std::string_view text(*buffer);
    if (!at_end) text = text.substr(0, text.rfind('\n') + 1);
    if (text.empty()) {
      if (bytes >= kLongestRecord) cut_lines(file, offset, bytes);  // throws
      bytes *= 4;
      continue;
    }
    int64_t rows = parse_lines(text, file, offset, inference);
    offset += static_cast<int64_t>(text.size());
    sample.has_rows = rows > 0;
    sample.rows = {std::max<int64_t>(rows, 1), static_cast<int64_t>(text.size())};
  }
  if (!sample.has_rows) return sample;
  try {
    sample.schema = inference.schema();
  } catch (const Error& error) {
    throw Error(error.kind(),
                str("read_json: in the first lines of '", file.path, "' ", error.what()));
  }
  return sample;
}

}  // namespace manta::data
