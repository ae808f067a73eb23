#include "manta/preprocess/simple_imputer.h"

#include <arrow/api.h>
#include <arrow/compute/api.h>

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/data/choose_rows_internal.h"
#include "manta/data/expression_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/preprocess/categories_internal.h"
#include "manta/preprocess/exact_moments_internal.h"
#include "manta/preprocess/number_tally_internal.h"

namespace manta {
namespace {

using preprocess::Categories;
using preprocess::CategoryKind;
using preprocess::CategoryTally;
using preprocess::CategoryType;
using preprocess::ExactMoments;
using preprocess::NumberTally;

bool can_fill(const Json& value) {
  return value.is_string() || value.is_boolean() ||
         (value.is_number() && std::isfinite(value.get<double>()));
}

// Times and decimals, which JSON does not have, are stored in files with their type.
preprocess::CategoriesPtr typed_fill(const Json& fill) {
  if (!fill.is_object() || fill.size() != 2 || !fill.contains("type") || !fill.contains("value") ||
      !fill["type"].is_string()) {
    return nullptr;
  }
  auto type = CategoryType::named(fill["type"].get<std::string>());
  if (!type || !type->exact) return nullptr;
  try {
    return std::make_shared<Categories>(*type, std::vector<Json>{fill["value"]});
  } catch (const Error&) {
    return nullptr;
  }
}

// A time or decimal as one of the column's type. Null if that cannot hold it exactly.
std::shared_ptr<arrow::Scalar> exact_fill(const Json& value,
                                          const std::shared_ptr<arrow::DataType>& type,
                                          const std::string& column) {
  if (value.is_object()) {
    auto fill = typed_fill(value);
    auto to = preprocess::category_type(*type, column, "SimpleImputer");
    if (!fill || !fill->type().is_comparable(to)) return nullptr;
    data::start_compute();
    auto cast = arrow::compute::Cast(*fill->array(), type);
    return cast.ok() ? check((*cast)->GetScalar(0), "making a value to fill with") : nullptr;
  }
  auto exact = preprocess::category_type(*type, column, "SimpleImputer");
  if (!value.is_string() || !exact.exact) return nullptr;
  if (exact.kind == CategoryKind::kDecimal) {
    Json fill = {{"type", exact.name()}, {"value", value}};
    return typed_fill(fill) ? exact_fill(fill, type, column) : nullptr;
  }
  auto scalar = arrow::Scalar::Parse(type, value.get<std::string>());
  return scalar.ok() ? *scalar : nullptr;
}

// The value as one of the column's type. Throws if the type cannot hold it.
std::shared_ptr<arrow::Scalar> fill_of(const Json& value,
                                       const std::shared_ptr<arrow::DataType>& type,
                                       const std::string& column) {
  auto id = type->id();
  bool is_text = id == arrow::Type::STRING || id == arrow::Type::LARGE_STRING ||
                 id == arrow::Type::STRING_VIEW;
  if (is_text && value.is_string()) {
    return check(arrow::MakeScalar(type, arrow::Buffer::FromString(value.get<std::string>())),
                 "making a value to fill with");
  }
  if (id == arrow::Type::BOOL && value.is_boolean()) return arrow::MakeScalar(value.get<bool>());
  bool is_whole = value.is_number_integer() ||
                  (value.is_number() && value.get<double>() == std::trunc(value.get<double>()));
  if ((arrow::is_integer(id) && is_whole) || (arrow::is_floating(id) && value.is_number())) {
    std::string text = value.dump();
    if (arrow::is_integer(id) && value.is_number_float() &&
        std::abs(value.get<double>()) < 9.2e18) {
      text = str(static_cast<int64_t>(value.get<double>()));
    }
    auto scalar = arrow::Scalar::Parse(type, text);
    if (scalar.ok()) return *scalar;
  }
  if (auto scalar = exact_fill(value, type, column)) return scalar;
  throw Error(ErrorKind::kInvalidArgument,
              str("SimpleImputer: column '", column, "' is of type ", type->ToString(),
                  ", which cannot hold ", short_text(value), ", with which its nulls are filled"));
}

// The type of a column that has only the fill value.
std::shared_ptr<arrow::DataType> type_of_fill(const Json& value) {
  if (value.is_object()) return typed_fill(value)->type().exact;
  if (value.is_string()) return arrow::utf8();
  if (value.is_boolean()) return arrow::boolean();
  if (value.is_number_unsigned() && value.get<uint64_t>() > uint64_t{INT64_MAX}) {
    return arrow::uint64();
  }
  return value.is_number_integer() ? arrow::int64() : arrow::float64();
}

bool has_missing(const arrow::Array& column) {
  if (column.null_count() > 0) return true;
  auto is_nan = [](auto x) { return std::isnan(x); };
  if (column.type_id() == arrow::Type::DOUBLE) {
    const double* values = static_cast<const arrow::DoubleArray&>(column).raw_values();
    return std::any_of(values, values + column.length(), is_nan);
  }
  if (column.type_id() == arrow::Type::FLOAT) {
    const float* values = static_cast<const arrow::FloatArray&>(column).raw_values();
    return std::any_of(values, values + column.length(), is_nan);
  }
  return column.type_id() == arrow::Type::HALF_FLOAT;
}

std::shared_ptr<arrow::Array> filled(const std::shared_ptr<arrow::Array>& column,
                                     const std::shared_ptr<arrow::Scalar>& fill) {
  if (!has_missing(*column)) return column;
  data::start_compute();
  arrow::compute::NullOptions nan_too(true);
  auto missing =
      check(arrow::compute::CallFunction("is_null", {column}, &nan_too), "looking for nulls");
  return data::if_else_rows(missing, fill, column, column->length()).make_array();
}

}  // namespace

SimpleImputer::SimpleImputer(std::vector<std::string> columns, const SimpleImputerOptions& options)
    : columns_(
          internal::Columns::in_pairs("SimpleImputer", std::move(columns), options.output_columns)),
      strategy_(options.strategy),
      fill_value_(options.fill_value) {
  if (strategy_ != "mean" && strategy_ != "most_frequent" && strategy_ != "constant") {
    throw Error(ErrorKind::kInvalidArgument,
                str("SimpleImputer: strategy must be \"mean\", \"most_frequent\" or \"constant\" "
                    "(was \"",
                    strategy_, "\")"));
  }
  if (strategy_ != "constant" && !fill_value_.is_null()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("SimpleImputer: fill_value is for the strategy \"constant\", not for \"",
                    strategy_, "\""));
  }
  if (strategy_ != "constant") return;
  if (!can_fill(fill_value_) || !is_utf8(fill_value_)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("SimpleImputer: fill_value must be a text, a finite number or a boolean (was ",
                    short_text(fill_value_), ")"));
  }
  fills_.assign(columns_.size(), fill_value_);
}

void SimpleImputer::check_columns(const arrow::Schema& schema) const {
  if (strategy_ == "mean") {
    preprocess::require_numbers(schema, columns_.inputs(), name());
  } else {
    preprocess::check_category_columns(columns_, schema);
  }
}

std::unique_ptr<Tally> SimpleImputer::start_tally() const {
  if (strategy_ == "mean") return std::make_unique<NumberTally<ExactMoments>>(columns_);
  return std::make_unique<CategoryTally>(columns_, preprocess::Lists::kWhole);
}

bool SimpleImputer::finish_tally(Tally& all) {
  std::vector<Json> fills;
  if (strategy_ == "mean") {
    for (const auto& moments : static_cast<NumberTally<ExactMoments>&>(all).parts()) {
      if (moments.has_infinite()) {
        throw Error(ErrorKind::kInvalidArgument,
                    str("SimpleImputer: column '", columns_.inputs()[fills.size()],
                        "' holds infinite values, and has no mean; remove them with a filter "
                        "before"));
      }
      fills.push_back(moments.mean());
    }
  } else {
    for (const auto& counts : static_cast<CategoryTally&>(all).parts()) {
      auto most =
          preprocess::learn_categories(counts, columns_.inputs()[fills.size()], name(), true, 1);
      Json value = most->values().at(0);
      bool plain = !most->type().exact;
      fills.push_back(plain ? value : Json{{"type", most->type().name()}, {"value", value}});
    }
  }
  fills_ = std::move(fills);
  return true;
}

data::BatchPtr SimpleImputer::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  auto arrays = columns_.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    const std::string& column = columns_.inputs()[i];
    arrays[i] = strategy_ == "mean" ? preprocess::numbers_of(arrays[i], column, name())
                                    : data::plain_column(arrays[i]);
    if (arrays[i]->type_id() == arrow::Type::NA) {
      auto type = type_of_fill(fills_[i]);
      arrays[i] =
          check(arrow::MakeArrayFromScalar(*fill_of(fills_[i], type, column), arrays[i]->length()),
                "filling nulls");
      continue;
    }
    arrays[i] = filled(arrays[i], fill_of(fills_[i], arrays[i]->type(), column));
  }
  return columns_.with(batch, std::move(arrays));
}

Json SimpleImputer::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < columns_.size(); ++i) {
    stats[str(strategy_, "(", columns_.inputs()[i], ")")] = fills_[i];
  }
  return stats;
}

Json SimpleImputer::state() const {
  Json state;
  columns_.write(state);
  state["strategy"] = strategy_;
  if (strategy_ == "constant") {
    state["fill_value"] = fill_value_;
  } else if (is_fitted()) {
    state["fills"] = fills_;
  }
  return state;
}

SimpleImputer SimpleImputer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("SimpleImputer", fields);
  SimpleImputer imputer(columns.inputs(),
                        {.strategy = fields.text("strategy"),
                         .fill_value = fields.has("fill_value") ? fields.any("fill_value") : Json(),
                         .output_columns = columns.outputs()});
  if (!fields.has("fills")) return imputer;
  const Json& fills = fields.array("fills");
  bool fits = fills.size() == columns.size() && imputer.strategy_ != "constant";
  for (const Json& fill : fills) {
    bool can = can_fill(fill) || (imputer.strategy_ == "most_frequent" && typed_fill(fill));
    fits = fits && can && (imputer.strategy_ != "mean" || fill.is_number());
  }
  if (!fits) fields.fail("fills", str(columns.size(), " values, one for each column"));
  imputer.fills_.assign(fills.begin(), fills.end());
  return imputer;
}

}  // namespace manta
