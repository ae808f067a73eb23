#include <arrow/api.h>

#include <cmath>
#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/expression_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/plan_limits_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace data {
namespace {

class FillNa final : public RowOperation {
 public:
  /// No names: the columns that keep their types.
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
  // What a comparison with the filled column rules out, it does not rule out of the file.
  bool add_bounds(FileBounds& bounds) const override {
    if (names_.empty()) bounds.columns.clear();
    for (const auto& name : names_) bounds.columns.erase(name);
    return true;
  }

  void run(Piece& piece, RowMask& mask, const ColumnNames& live) const override {
    require_columns(names_, piece.names, *this);
    for (const auto& name : std::vector(names_.empty() ? piece.names : names_)) {
      if (live && !contains(*live, name)) continue;
      auto type = (*piece.find(name))->type();
      if (names_.empty() && !can_fill(name, type)) continue;
      piece.set(name, evaluate_kept(filled(name, *type), piece, mask));
    }
  }

 private:
  Expression filled(const std::string& name, const arrow::DataType& type) const {
    Expression column = col(name);
    if (!arrow::is_floating(type.id())) return column.fill_null(value_);
    if (type.id() != arrow::Type::HALF_FLOAT) {
      return if_else(column.is_null() || column.is_nan(), value_, column);
    }
    // Choices know no float16. What it cannot hold makes a float64 of the column, as elsewhere.
    column = column.cast("float32");
    Expression wide = if_else(column.is_null() || column.is_nan(), value_, column);
    return fits_float16() ? wide.cast("float16") : wide.cast("float64");
  }

  bool fits_float16() const {
    const Literal& literal = value_.node().literal;
    if (auto* number = std::get_if<int64_t>(&literal)) return std::abs(*number) <= 2048;
    auto* number = std::get_if<double>(&literal);
    return number && std::abs(*number) <= 65504;
  }

  bool can_fill(const std::string& name, const std::shared_ptr<arrow::DataType>& type) const {
    try {
      return type_of(filled(name, *type), *arrow::schema({arrow::field(name, type)}))
          ->Equals(*type);
    } catch (const Error&) {
      return false;
    }
  }

  // Of a column that was not named, its own, whether it is filled or not.
  std::shared_ptr<arrow::DataType> filled_type(const std::string& name,
                                               const std::shared_ptr<arrow::DataType>& type) const {
    if (names_.empty()) return type;
    try {
      return type_of(filled(name, *type), *arrow::schema({arrow::field(name, type)}));
    } catch (const Error& error) {
      throw Error(error.kind(), str("in ", to_string(), ": column '", name, "' of type ",
                                    type->ToString(), " cannot be filled: ", error.what()));
    }
  }

  const Expression value_;
  const std::vector<std::string> names_;
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
