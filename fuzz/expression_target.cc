// An expression as JSON, computed on ordinary rows and on values at their limits if it is one.

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

std::shared_ptr<arrow::Array> decimals(const std::vector<const char*>& texts) {
  arrow::Decimal128Builder builder(arrow::decimal128(38, 2));
  for (const char* text : texts) {
    check(builder.Append(check(arrow::Decimal128::FromString(text), "a decimal")), "a decimal");
  }
  check(builder.AppendNull(), "a decimal");
  return check(builder.Finish(), "building a column");
}

/// Four values for each column; a null follows.
struct Values {
  std::vector<int64_t> i;
  std::vector<uint64_t> u;
  std::vector<double> f;
  std::vector<std::string> s;
  std::vector<int64_t> t, z;
  std::vector<int32_t> d;
  std::vector<const char*> n;
};

data::Piece piece_of(const Values& values) {
  data::Piece piece;
  piece.rows = 5;
  piece.set("i", column_of<arrow::Int64Builder>(values.i));
  piece.set("u", column_of<arrow::UInt64Builder>(values.u));
  piece.set("f", column_of<arrow::DoubleBuilder>(values.f));
  piece.set("b", column_of<arrow::BooleanBuilder, bool>({true, false, true, true}));
  piece.set("s", column_of<arrow::StringBuilder>(values.s));
  piece.set("t", column_as(arrow::timestamp(arrow::TimeUnit::MICRO), values.t));
  piece.set("z",
            column_as(arrow::timestamp(arrow::TimeUnit::SECOND, "America/New_York"), values.z));
  piece.set("d", column_of<arrow::Date32Builder>(values.d));
  piece.set("n", decimals(values.n));
  piece.set("w", column_of<arrow::StringDictionaryBuilder, std::string>({"a", "b", "a", ""}));
  return piece;
}

const data::Piece& ordinary_rows() {
  static const data::Piece piece = piece_of({.i = {0, -1, 7, 20},
                                             .u = {3, 1, 5, 40},
                                             .f = {0.5, -0.0, 12.25, 3e9},
                                             .s = {"", "x", "2020-01-01", "\u00e9"},
                                             .t = {0, -1, 1580515200000000, 1580515200000001},
                                             .z = {0, -1, 1580515200, 4102444800},
                                             .d = {0, -1, 18262, 18263},
                                             .n = {"0.00", "-1.50", "99.99", "2.25"}});
  return piece;
}

const data::Piece& extreme_rows() {
  static const data::Piece piece =
      piece_of({.i = {0, -1, INT64_MAX, INT64_MIN},
                .u = {0, 1, UINT64_MAX, 1ull << 63},
                .f = {0.5, -0.0, 1e308, 9007199254740993.0},
                .s = {"", "x", "2020-01-01", "\xff"},
                .t = {0, -1, 1580515200000000, INT64_MAX},
                .z = {0, -1, 1580515200, 4102444800},
                .d = {0, -1, 18262, INT32_MAX},
                .n = {"0.00", "-1.50", "999999999999999999999999999999999999.99", "2.25"}});
  return piece;
}

}  // namespace

void run(std::string_view input) {
  Json json = parse_json(input, "the input", {.depth = 2000});
  auto expression = Expression::from_json(json);
  expression.to_string();
  Expression::from_json(expression.to_json());
  data::evaluate(expression, ordinary_rows());
  try {
    data::evaluate(expression, extreme_rows());
  } catch (const Error&) {
    // A good expression whose result these rows do not have.
  }
}

std::vector<std::string> seeds() {
  return {
      (col("f") * 2 > col("u") && !col("b")).to_json().dump(),
      (col("s") == "x" || col("f").is_null()).to_json().dump(),
      (col("f") / 3 <= col("b").cast("float64")).to_json().dump(),
      (col("t") >= "2020-01-15" && col("d") < "2020-01-01" && hour(col("z")) == 3).to_json().dump(),
      (seconds_between(col("t"), col("t")) + day_of_week(col("z"))).to_json().dump(),
      (col("n") * 2 < col("n") || col("n") == 1.5 || col("w") == "a").to_json().dump(),
      (col("i") % col("u") + col("f").round(2) % 3).to_json().dump(),
      (col("s").lower().substring(1, 2) + col("w").trim()).to_json().dump(),
      (col("s").contains("x") || col("w").starts_with(col("s")) || col("s").length() > 2)
          .to_json()
          .dump(),
      (col("t").year() + col("z").week() + col("d").quarter() + col("t").microsecond())
          .to_json()
          .dump(),
      (col("t") - col("d") < std::chrono::hours(2)).to_json().dump(),
      (col("t") + (col("t") - "2020-01-01") * 2).to_json().dump(),
      if_else(col("i").is_in({1, -1, 2.5}), col("f"), col("n").fill_null(0)).to_json().dump(),
      when(col("s").is_in({"x", "\xff"}), col("i").abs())
          .when(col("b"), col("u"))
          .otherwise(coalesce({col("i"), 1}))
          .to_json()
          .dump(),
      (col("f").clip(0, 1).sqrt().pow(2) + atan2(col("i"), col("n")).sin()).to_json().dump(),
      (col("i").cast("decimal128(38, 2)") == col("t").date().cast("string")).to_json().dump(),
      (col("s") == "\xff" || col("f") < lit(INFINITY)).to_json().dump()};
}

}  // namespace manta::fuzz::expression
