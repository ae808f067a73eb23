// An expression as JSON, computed on a few rows if it is one.

#include <arrow/api.h>
#include <manta/base/json_input_internal.h>
#include <manta/base/names_internal.h>
#include <manta/data/expression_internal.h>
#include <manta/io/arrow_status_internal.h>

#include <cmath>

#include "target.h"

namespace manta::fuzz::expression {
namespace {

template <class Builder, class Value>
std::shared_ptr<arrow::Array> column_of(const std::vector<Value>& values) {
  Builder builder;
  for (const auto& value : values) check(builder.Append(value), "building a column");
  check(builder.AppendNull(), "building a column");
  return check(builder.Finish(), "building a column");
}

std::shared_ptr<arrow::Array> column_as(const std::shared_ptr<arrow::DataType>& type,
                                        const std::vector<int64_t>& values) {
  return check(column_of<arrow::Int64Builder>(values)->View(type), "building a column");
}

std::shared_ptr<arrow::Array> decimals() {
  arrow::Decimal128Builder builder(arrow::decimal128(38, 2));
  for (const char* text : {"0.00", "-1.50", "999999999999999999999999999999999999.99", "2.25"}) {
    check(builder.Append(check(arrow::Decimal128::FromString(text), "a decimal")), "a decimal");
  }
  check(builder.AppendNull(), "a decimal");
  return check(builder.Finish(), "building a column");
}

const data::Piece& rows() {
  static const data::Piece piece = [] {
    data::Piece piece;
    piece.rows = 5;
    piece.set("i", column_of<arrow::Int64Builder, int64_t>({0, -1, INT64_MAX, INT64_MIN}));
    piece.set("u", column_of<arrow::UInt64Builder, uint64_t>({0, 1, UINT64_MAX, 1ull << 63}));
    piece.set("f", column_of<arrow::DoubleBuilder, double>({0.5, -0.0, 1e308, 9007199254740993.0}));
    piece.set("b", column_of<arrow::BooleanBuilder, bool>({true, false, true, true}));
    piece.set("s", column_of<arrow::StringBuilder, std::string>({"", "x", "2020-01-01", "\xff"}));
    piece.set("t", column_as(arrow::timestamp(arrow::TimeUnit::MICRO),
                             {0, -1, 1580515200000000, INT64_MAX}));
    piece.set("z", column_as(arrow::timestamp(arrow::TimeUnit::SECOND, "America/New_York"),
                             {0, -1, 1580515200, 4102444800}));
    piece.set("d", column_of<arrow::Date32Builder, int32_t>({0, -1, 18262, INT32_MAX}));
    piece.set("n", decimals());
    piece.set("w", column_of<arrow::StringDictionaryBuilder, std::string>({"a", "b", "a", ""}));
    return piece;
  }();
  return piece;
}

}  // namespace

void run(std::string_view input) {
  Json json = parse_json(input, "the input", {.depth = 2000});
  auto expression = Expression::from_json(json);
  expression.to_string();
  Expression::from_json(expression.to_json());
  data::evaluate(expression, rows());
}

std::vector<std::string> seeds() {
  return {
      (col("f") * 2 > col("u") && !col("b")).to_json().dump(),
      (col("s") == "x" || col("f").is_null()).to_json().dump(),
      (col("f") / 3 <= col("b").cast("float64")).to_json().dump(),
      (col("t") >= "2020-01-15" && col("d") < "2020-01-01" && hour(col("z")) == 3).to_json().dump(),
      (seconds_between(col("t"), col("t")) + day_of_week(col("z"))).to_json().dump(),
      (col("n") * 2 < col("n") || col("n") == 1.5 || col("w") == "a").to_json().dump(),
      (col("s") == "\xff" || col("f") < lit(INFINITY)).to_json().dump()};
}

}  // namespace manta::fuzz::expression
