#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/util/bitmap_generate.h>

#include <limits>
#include <string_view>

#include "manta/base/json_input_internal.h"
#include "manta/data/expression_function_internal.h"
#include "manta/data/validity_internal.h"

namespace manta {
namespace data {
namespace {

namespace cp = arrow::compute;
using arrow::Datum;
using arrow::Type;

/// The texts of a column, or one constant, as string or large_string.
class Texts {
 public:
  explicit Texts(Datum value) : value_(std::move(value)) {
    if (value_.is_array()) {
      column_ = value_.make_array();
    } else if (value_.scalar()->is_valid) {
      constant_ = static_cast<const arrow::BaseBinaryScalar&>(*value_.scalar()).view();
    }
  }

  bool is_utf8() const {
    if (!column_) return manta::is_utf8(Json(std::string(constant_)));
    auto valid = column_->type_id() == Type::STRING
                     ? static_cast<const arrow::StringArray&>(*column_).ValidateUTF8()
                     : static_cast<const arrow::LargeStringArray&>(*column_).ValidateUTF8();
    return valid.ok();
  }
  std::string_view at(int64_t row) const {
    if (!column_) return constant_;
    return column_->type_id() == Type::STRING
               ? static_cast<const arrow::StringArray&>(*column_).GetView(row)
               : static_cast<const arrow::LargeStringArray&>(*column_).GetView(row);
  }

 private:
  Datum value_;
  std::shared_ptr<arrow::Array> column_;
  std::string_view constant_;
};

Datum text(Evaluator& evaluator, const ExpressionNode& node, size_t index = 0) {
  Datum value = evaluator.operand(node, index);
  if (value.type()->id() == Type::NA) value = evaluator.promote(value, arrow::utf8());
  if (value.type()->id() == Type::STRING_VIEW) value = evaluator.cast(value, arrow::large_utf8());
  if (!arrow::is_string(value.type()->id())) {
    evaluator.throw_types(node, "it needs texts (see cast)");
  }
  if (!Texts(value).is_utf8()) {
    evaluator.fail(str(to_string(*node.arguments[index]), " has a text that is not UTF-8"));
  }
  return value;
}

Datum transformed(Evaluator& evaluator, const ExpressionNode& node, const char* function) {
  return evaluator.call(function, {text(evaluator, node)});
}

template <class Holds>
Datum test_texts(Evaluator& evaluator, const ExpressionNode& node, Holds&& holds) {
  auto array = evaluator.as_array(text(evaluator, node, 0));
  Datum other = text(evaluator, node, 1);
  if (other.is_scalar() && !other.scalar()->is_valid) other = evaluator.as_array(other);
  Texts left(array), right(other);
  auto bits = evaluator.get(arrow::AllocateBitmap(array->length()));
  int64_t row = 0;
  arrow::internal::GenerateBitsUnrolled(bits->mutable_data(), 0, array->length(), [&] {
    bool result = holds(left.at(row), right.at(row));
    ++row;
    return result;
  });
  auto valid = valid_in_both(*array, other.is_array() ? *other.make_array() : *array);
  int64_t nulls = valid ? arrow::kUnknownNullCount : 0;
  return Datum(arrow::ArrayData::Make(
      arrow::boolean(), array->length(),
      {std::move(valid), std::shared_ptr<arrow::Buffer>(std::move(bits))}, nulls));
}

Datum part_of_text(Evaluator& evaluator, const ExpressionNode& node) {
  constexpr int64_t kEnd = std::numeric_limits<int64_t>::max();
  int64_t start = constant_integer(evaluator, node, 1, "its start");
  int64_t stop = kEnd;
  if (node.arguments.size() == 3) {
    int64_t length = constant_integer(evaluator, node, 2, "its length");
    if (length < 0) evaluator.fail(str(to_string(node), " needs a length of at least 0"));
    bool beyond = __builtin_add_overflow(start, length, &stop);
    // If `start` counts from the end, a stop of 0 or more is after the last character.
    if (beyond || (start < 0 && stop >= 0)) stop = kEnd;
    if (length == 0) start = stop = 0;
  }
  cp::SliceOptions options(start, stop);
  return evaluator.call("utf8_slice_codeunits", {text(evaluator, node)}, &options);
}

using E = Evaluator;
using N = const ExpressionNode;
using Text = std::string_view;

constexpr ExpressionFunction kTextFunctions[] = {
    {"length", 1, 1,
     [](E& e, N& n) { return e.cast(transformed(e, n, "utf8_length"), arrow::int64()); }},
    {"lower", 1, 1, [](E& e, N& n) { return transformed(e, n, "utf8_lower"); }},
    {"upper", 1, 1, [](E& e, N& n) { return transformed(e, n, "utf8_upper"); }},
    {"trim", 1, 1, [](E& e, N& n) { return transformed(e, n, "utf8_trim_whitespace"); }},
    {"trim_start", 1, 1, [](E& e, N& n) { return transformed(e, n, "utf8_ltrim_whitespace"); }},
    {"trim_end", 1, 1, [](E& e, N& n) { return transformed(e, n, "utf8_rtrim_whitespace"); }},
    {"contains", 2, 2,
     [](E& e, N& n) {
       return test_texts(e, n, [](Text a, Text b) { return a.find(b) != Text::npos; });
     }},
    {"starts_with", 2, 2,
     [](E& e, N& n) { return test_texts(e, n, [](Text a, Text b) { return a.starts_with(b); }); }},
    {"ends_with", 2, 2,
     [](E& e, N& n) { return test_texts(e, n, [](Text a, Text b) { return a.ends_with(b); }); }},
    {"substring", 2, 3, part_of_text},
};

}  // namespace

std::span<const ExpressionFunction> text_functions() { return kTextFunctions; }

}  // namespace data

using data::call_function;

Expression Expression::length() const { return call_function("length", {*this}); }
Expression Expression::lower() const { return call_function("lower", {*this}); }
Expression Expression::upper() const { return call_function("upper", {*this}); }
Expression Expression::trim() const { return call_function("trim", {*this}); }
Expression Expression::trim_start() const { return call_function("trim_start", {*this}); }
Expression Expression::trim_end() const { return call_function("trim_end", {*this}); }
Expression Expression::contains(const Expression& text) const {
  return call_function("contains", {*this, text});
}
Expression Expression::starts_with(const Expression& text) const {
  return call_function("starts_with", {*this, text});
}
Expression Expression::ends_with(const Expression& text) const {
  return call_function("ends_with", {*this, text});
}
Expression Expression::substring(int64_t start, int64_t length) const {
  return call_function("substring", {*this, start, length});
}
Expression Expression::substring(int64_t start) const {
  return call_function("substring", {*this, start});
}

}  // namespace manta
