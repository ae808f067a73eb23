#include <arrow/api.h>
#include <arrow/compute/api.h>
#include <arrow/extension_type.h>

#include <cmath>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

constexpr const char* kFillingDictionary = "filling a dictionary";
// Dictionaries that threads and columns use at the moment.
constexpr size_t kDictionariesKept = 64;

class FillNa final : public RowOperation {
 public:
  /// No names: the columns that keep their types and, if the value is a number, all columns of
  /// floating-point numbers.
  FillNa(Expression value, std::vector<std::string> names)
      : value_(std::move(value)), names_(std::move(names)) {
    if (value_.node().op == ExpressionOp::kLiteral) return;
    throw Error(ErrorKind::kInvalidArgument,
                str("fill_na needs a constant, not ", value_.to_string(),
                    "; use with_column(name, col(name).fill_null(...))"));
  }

  std::string to_string() const override {
    return str("fill_na(", value_.to_string(), names_.empty() ? "" : " in ", join(names_), ")");
  }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "fill_na"}, {"value", value_.to_json()}, {"columns", names_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns(names_, before->field_names(), *this);
    arrow::FieldVector fields;
    for (const auto& field : before->fields()) {
      auto filled = names_.empty() || contains(names_, field->name())
                        ? filled_type(field->name(), field->type())
                        : field->type();
      fields.push_back(arrow::field(field->name(), filled));
    }
    return arrow::schema(fields);
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    for (const auto& name : names_) {
      if (live && !contains(*live, name)) live->push_back(name);
    }
    return live;
  }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  // A comparison with the filled column says nothing about the column of the file.
  bool add_bounds(FileBounds& bounds) const override {
    if (names_.empty()) bounds.columns.clear();
    for (const auto& name : names_) bounds.columns.erase(name);
    return true;
  }

  bool repeats() const override { return true; }
  void run(Piece& piece, RowMask& mask, const ColumnNames& live) const override {
    require_columns(names_, piece.names, *this);
    for (const auto& name : std::vector(names_.empty() ? piece.names : names_)) {
      if (live && !contains(*live, name)) continue;
      auto column = *piece.find(name);
      const auto& type = column->type();
      auto inner = values_type(type);
      bool stays = can_fill(name, inner);
      if (names_.empty() && !stays) {
        require_no_float(name, *inner);
      } else if (stays && inner != type) {
        piece.set(name, fill_encoded(name, *column));
      } else {
        piece.set(name, evaluate_kept(filled(name, *inner), piece, mask));
      }
    }
  }

 private:
  using TypePtr = std::shared_ptr<arrow::DataType>;
  using ArrayPtr = std::shared_ptr<arrow::Array>;

  // The type of the values in dictionaries, runs and extension types.
  static TypePtr values_type(const TypePtr& type) {
    switch (type->id()) {
      case arrow::Type::DICTIONARY:
        return values_type(static_cast<const arrow::DictionaryType&>(*type).value_type());
      case arrow::Type::RUN_END_ENCODED:
        return values_type(static_cast<const arrow::RunEndEncodedType&>(*type).value_type());
      case arrow::Type::EXTENSION:
        return values_type(static_cast<const arrow::ExtensionType&>(*type).storage_type());
      default:
        return type;
    }
  }

  // Fills the values inside the encodings, which stay.
  ArrayPtr fill_encoded(const std::string& name, const arrow::Array& column) const {
    switch (column.type_id()) {
      case arrow::Type::DICTIONARY:
        return fill_dictionary(name, static_cast<const arrow::DictionaryArray&>(column));
      case arrow::Type::RUN_END_ENCODED: {
        const auto& runs = static_cast<const arrow::RunEndEncodedArray&>(column);
        return check(
            arrow::RunEndEncodedArray::Make(runs.length(), runs.run_ends(),
                                            fill_encoded(name, *runs.values()), runs.offset()),
            "filling runs");
      }
      case arrow::Type::EXTENSION: {
        const auto& storage = *static_cast<const arrow::ExtensionArray&>(column).storage();
        return arrow::ExtensionType::WrapArray(column.type(), fill_encoded(name, storage));
      }
      default: {
        Piece piece;
        piece.rows = column.length();
        piece.set(name, arrow::MakeArray(column.data()));
        return evaluate(filled(name, *column.type()), piece);
      }
    }
  }

  // The constant becomes one more of its values, if there are nulls.
  ArrayPtr fill_dictionary(const std::string& name, const arrow::DictionaryArray& column) const {
    const auto& dictionary = column.data()->dictionary;
    auto values = filled_dictionary(dictionary, false, [&] {
      bool whole = column.dictionary()->null_count() == 0 &&
                   !arrow::is_floating(dictionary->type->id()) &&
                   values_type(dictionary->type) == dictionary->type;
      return whole ? column.dictionary() : fill_encoded(name, *column.dictionary());
    });
    auto indices = column.indices();
    if (indices->null_count() > 0) {
      auto place = arrow::Scalar::Parse(indices->type(), str(values->length()));
      if (!place.ok()) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("in ", to_string(), ": column '", name, "' of type ",
                        column.type()->ToString(), " has ", values->length(),
                        " values already, and no number for another one; cast it to ",
                        values->type()->ToString(), " before"));
      }
      values = filled_dictionary(dictionary, true, [&] {
        auto null = check(arrow::MakeArrayOfNull(values->type(), 1), kFillingDictionary);
        return check(arrow::Concatenate({values, fill_encoded(name, *null)}), kFillingDictionary);
      });
      start_compute();
      indices =
          check(arrow::compute::CallFunction("coalesce", {indices, *place}), kFillingDictionary)
              .make_array();
    }
    return check(arrow::DictionaryArray::FromArrays(column.type(), indices, values),
                 kFillingDictionary);
  }

  // Many pieces have the same dictionary, which may be large: `make` is called for the first one.
  template <class Make>
  ArrayPtr filled_dictionary(const std::shared_ptr<arrow::ArrayData>& dictionary, bool longer,
                             Make make) const {
    auto find = [&]() -> ArrayPtr {
      for (const auto& each : dictionaries_) {
        if (each.longer == longer && each.of.lock() == dictionary) return each.filled;
      }
      return nullptr;
    };
    {
      std::lock_guard lock(mutex_);
      if (auto known = find()) return known;
    }
    auto made = make();
    if (made->data() == dictionary) return made;  // it is not stored, as it would keep itself alive
    std::lock_guard lock(mutex_);
    if (auto known = find()) return known;
    std::erase_if(dictionaries_, [](const auto& each) { return each.of.expired(); });
    if (dictionaries_.size() == kDictionariesKept) dictionaries_.pop_front();
    dictionaries_.push_back({dictionary, longer, made});
    return made;
  }

  Expression filled(const std::string& name, const arrow::DataType& type) const {
    Expression column = col(name);
    if (!arrow::is_floating(type.id())) return column.fill_null(value_);
    // The choice functions do not know float16.
    if (type.id() == arrow::Type::HALF_FLOAT) column = column.cast("float32");
    Expression wide = if_else(column.is_null() || column.is_nan(), value_, column);
    if (!is_number()) return wide;
    // Rounds the constant to the column's type. If it is too large for that, the column becomes
    // float64.
    return wide.cast(fits(type) ? name_of_float(type) : "float64");
  }

  static const char* name_of_float(const arrow::DataType& type) {
    if (type.id() == arrow::Type::HALF_FLOAT) return "float16";
    return type.id() == arrow::Type::FLOAT ? "float32" : "float64";
  }

  bool is_number() const {
    const Literal& literal = value_.node().literal;
    return std::holds_alternative<int64_t>(literal) || std::holds_alternative<double>(literal);
  }

  // Whether the constant fits into a floating-point type: an integer exactly, other numbers
  // rounded.
  bool fits(const arrow::DataType& type) const {
    bool half = type.id() == arrow::Type::HALF_FLOAT, wide = type.id() == arrow::Type::DOUBLE;
    const Literal& literal = value_.node().literal;
    if (auto* number = std::get_if<int64_t>(&literal)) {
      int64_t most = int64_t{1} << (half ? 11 : wide ? 53 : 24);
      return *number >= -most && *number <= most;
    }
    auto* number = std::get_if<double>(&literal);
    if (!number || wide || !std::isfinite(*number)) return number != nullptr;
    // Whether it is rounded to a finite number.
    return half ? std::abs(*number) < 65520 : std::isfinite(static_cast<float>(*number));
  }

  bool can_fill(const std::string& name, const std::shared_ptr<arrow::DataType>& type) const {
    try {
      return type_of(filled(name, *type), *arrow::schema({arrow::field(name, type)}))
          ->Equals(*type);
    } catch (const Error&) {
      return false;
    }
  }

  // If a number is put into all columns, the user expects no column of numbers to keep its nulls.
  void require_no_float(const std::string& name, const arrow::DataType& type) const {
    if (!is_number() || !arrow::is_floating(type.id())) return;
    throw Error(
        ErrorKind::kInvalidArgument,
        str("in ", to_string(), ": column '", name, "' of type ", type.ToString(), " cannot hold ",
            value_.to_string(), "; name the columns that it is for (.columns), or cast this one"));
  }

  // A column that was not named keeps its type, whether it is filled or not.
  std::shared_ptr<arrow::DataType> filled_type(const std::string& name,
                                               const std::shared_ptr<arrow::DataType>& type) const {
    auto inner = values_type(type);
    bool stays = can_fill(name, inner);
    if (names_.empty() && !stays) require_no_float(name, *inner);
    if (names_.empty() || stays) return type;
    try {
      return type_of(filled(name, *inner), *arrow::schema({arrow::field(name, inner)}));
    } catch (const Error& error) {
      throw Error(error.kind(), str("in ", to_string(), ": column '", name, "' of type ",
                                    type->ToString(), " cannot be filled: ", error.what()));
    }
  }

  const Expression value_;
  const std::vector<std::string> names_;

  struct FilledDictionary {
    std::weak_ptr<arrow::ArrayData> of;
    bool longer = false;  ///< Whether the constant is appended to its values.
    ArrayPtr filled;
  };
  mutable std::mutex mutex_;
  mutable std::deque<FilledDictionary> dictionaries_;
};

}  // namespace

OperationPtr read_fill_na(const JsonFields& fields, const PlanFunctions&) {
  return std::make_shared<FillNa>(Expression::from_json(fields.any("value")),
                                  fields.texts("columns", kLongestName));
}

}  // namespace data

Dataset Dataset::fill_na(const Expression& value, const FillNaOptions& options) const {
  return then(*this, std::make_shared<data::FillNa>(value, options.columns));
}

}  // namespace manta
