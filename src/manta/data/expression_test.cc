#include "manta/data/expression.h"

#include <gmock/gmock.h>

#include <cmath>

#include "manta/data/expression_internal.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

std::shared_ptr<arrow::DataType> type_of(const std::string& name) {
  if (name == "int32") return arrow::int32();
  if (name == "int64") return arrow::int64();
  if (name == "float32") return arrow::float32();
  if (name == "float64") return arrow::float64();
  if (name == "bool") return arrow::boolean();
  if (name == "string") return arrow::utf8();
  if (name == "timestamp[s]") return arrow::timestamp(arrow::TimeUnit::SECOND);
  if (name == "timestamp[us]") return arrow::timestamp(arrow::TimeUnit::MICRO);
  return arrow::timestamp(arrow::TimeUnit::NANO);
}

Piece piece_of(const Json& columns) {
  Piece piece;
  for (const auto& [name, column] : columns.items()) {
    auto type = type_of(column.at("type"));
    piece.rows = static_cast<int64_t>(column.at("values").size());
    bool is_time = type->id() == arrow::Type::TIMESTAMP;
    auto values = array_from_json(is_time ? arrow::int64() : type, column.at("values"));
    piece.set(name, is_time ? check(values->View(type), "a time") : values);
  }
  return piece;
}

const Json& expected() {
  static const Json document = Json::parse(
#include "manta/data/expected/expressions.inc"
  );
  return document;
}

Json plain(const arrow::Array& array) {
  Json values = Json::array();
  for (int64_t i = 0; i < array.length(); ++i) {
    auto scalar = check(array.GetScalar(i), "a value");
    if (!scalar->is_valid) {
      values.push_back(nullptr);
    } else if (auto* flag = dynamic_cast<arrow::BooleanScalar*>(scalar.get())) {
      values.push_back(flag->value);
    } else if (arrow::is_floating(array.type_id())) {
      auto number = check(scalar->CastTo(arrow::float64()), "a number");
      double value = static_cast<arrow::DoubleScalar&>(*number).value;
      if (std::isfinite(value)) {
        values.push_back(value);
      } else {
        values.push_back(std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf");
      }
    } else {
      auto number = check(scalar->CastTo(arrow::int64()), "a number");
      values.push_back(static_cast<arrow::Int64Scalar&>(*number).value);
    }
  }
  return values;
}

TEST(ExpressionTest, ComputesWhatPandasComputes) {
  Piece piece = piece_of(expected().at("columns"));
  for (const auto& test : expected().at("cases")) {
    auto expression = Expression::from_json(test.at("expression"));
    auto result = evaluate(expression, piece);
    EXPECT_EQ(result->type()->ToString(), type_of(test.at("type"))->ToString())
        << expression.to_string();
    EXPECT_EQ(plain(*result), test.at("values")) << expression.to_string();
    EXPECT_EQ(expression.to_json(), test.at("expression"));
  }
}

TEST(ExpressionTest, ColumnsThatAreSlicesGiveTheSame) {
  Piece whole = piece_of(expected().at("columns"));
  for (int64_t from : {1, 3}) {
    Piece piece = whole;
    piece.rows = whole.rows - from;
    for (auto& column : piece.columns) column = column->Slice(from);
    for (const auto& test : expected().at("cases")) {
      auto expression = Expression::from_json(test.at("expression"));
      Json values = test.at("values");
      values.erase(values.begin(), values.begin() + from);
      EXPECT_EQ(plain(*evaluate(expression, piece)), values) << expression.to_string();
    }
  }
}

TEST(ExpressionTest, OperatorsBuildWhatTheySay) {
  struct Case {
    Expression expression;
    std::string text;
  };
  const Case cases[] = {
      {col("a") + 1, "a + 1"},
      {1.5 - col("a"), "1.5 - a"},
      {-col("a") * col("b"), "-a * b"},
      {lit(1) / 3, "1 / 3"},
      {col("a") == "x", "a == \"x\""},
      {col("a") != std::string("x"), "a != \"x\""},
      {col("a") < 4 * 60 && col("b") >= 2, "(a < 240) && (b >= 2)"},
      {col("a") <= 1 || !(col("b") > true), "(a <= 1) || !(b > true)"},
      {col("a").is_null() || col("b").is_valid(), "is_null(a) || is_valid(b)"},
      {col("a").cast("float32"), "cast(a, float32)"},
      {seconds_between(col("a"), col("b")), "seconds_between(a, b)"},
      {hour(col("a")) + day_of_week(col("a")), "hour(a) + day_of_week(a)"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(test.expression.to_string(), test.text);
    auto copy = Expression::from_json(Json::parse(test.expression.to_json().dump()));
    EXPECT_EQ(copy.to_string(), test.text);
    EXPECT_EQ(copy.to_json(), test.expression.to_json());
  }
}

TEST(ExpressionTest, JsonKeepsTypesAndOddNumbers) {
  for (const Expression& value : {lit(4), lit(4.0), lit(true), lit("4"), lit(INFINITY),
                                  lit(-INFINITY), lit(9007199254740993)}) {
    auto copy = Expression::from_json(Json::parse(value.to_json().dump()));
    EXPECT_EQ(copy.node().literal, value.node().literal) << value.to_string();
  }
  auto nan = Expression::from_json(lit(NAN).to_json());
  EXPECT_TRUE(std::isnan(std::get<double>(nan.node().literal)));
}

TEST(ExpressionTest, WhatIsNoExpressionIsRefused) {
  for (const char* json : {"3", "{}", R"({"op": "add", "args": [{"lit": 1}]})", R"({"lit": null})",
                           R"({"op": "system", "args": []})", R"({"op": "add", "args": [1, 2]})",
                           R"({"op": "or", "args": [{"lit": true}]})",
                           R"({"op": "cast", "args": [{"col": "a"}], "type": 5})",
                           R"({"op": "cast", "args": [{"col": "a"}]})", R"({"op": 5, "args": []})",
                           R"({"double": "abc"})", R"({"double": 3})", R"({"double": "Inf"})",
                           R"({"bytes": "f"})", R"({"bytes": "0G"})", R"({"col": 3})"}) {
    EXPECT_THAT(
        message_of(ErrorKind::kInvalidArgument, [&] { Expression::from_json(Json::parse(json)); }),
        HasSubstr("the expression is damaged"))
        << json;
  }
  Json large = {{"op", "add"}, {"args", Json(std::vector<int>(100'000, 1))}};
  EXPECT_LT(message_of(ErrorKind::kInvalidArgument, [&] { Expression::from_json(large); }).size(),
            200u);
}

// A restored run must compare with the same bytes.
TEST(ExpressionTest, TextsThatAreNotUtf8ComeBack) {
  for (const std::string& text : {std::string("\xff\x00z", 3), std::string("\xc3")}) {
    auto json = Json::parse((col("a") == text).to_json().dump());
    auto copy = Expression::from_json(json);
    EXPECT_EQ(std::get<std::string>(copy.node().arguments[1]->literal), text);
  }
}

TEST(ExpressionTest, ChainsAreOneNode) {
  auto a = col("a"), b = col("b"), c = col("c"), d = col("d");
  EXPECT_EQ(((a || b) || (c || d)).to_string(), "a || b || c || d");
  EXPECT_EQ(((a && b) || (c && d)).to_string(), "(a && b) || (c && d)");
  EXPECT_EQ((a || b || c).to_json().at("args").size(), 3u);
  // JSON as earlier versions wrote it.
  Json nested = {{"op", "or"},
                 {"args", {{{"op", "or"}, {"args", {a.to_json(), b.to_json()}}}, c.to_json()}}};
  EXPECT_EQ(Expression::from_json(nested).to_json(), (a || b || c).to_json());
  Piece piece;
  piece.rows = 4;
  piece.set("a", array_from_json(arrow::boolean(), {true, false, nullptr, nullptr}));
  piece.set("b", array_from_json(arrow::boolean(), {false, false, nullptr, false}));
  piece.set("c", array_from_json(arrow::boolean(), {nullptr, false, true, false}));
  EXPECT_EQ(plain(*evaluate(a || b || c, piece)), Json({true, false, true, nullptr}));
  EXPECT_EQ(plain(*evaluate(a && b && c, piece)), Json({false, false, nullptr, false}));
}

TEST(ExpressionTest, ErrorsNameColumnTypeAndExpression) {
  Piece piece = piece_of(expected().at("columns"));
  struct Case {
    Expression expression;
    ErrorKind kind;
    std::vector<std::string> parts;
  };
  const auto invalid = ErrorKind::kInvalidArgument;
  const Case cases[] = {
      {col("fare") < 3, ErrorKind::kNotFound, {"fare < 3", "no column 'fare'", "'i32'", "'s'"}},
      {col("s") < 3, invalid, {"s < 3", "column 's' of type string", "int64"}},
      {col("s") + 1, invalid, {"s + 1", "column 's' of type string", "numbers"}},
      {col("b") + 1, invalid, {"column 'b' of type bool"}},
      {col("i32") && col("b"), invalid, {"i32 && b", "column 'i32' of type int32", "conditions"}},
      {!col("i32"), invalid, {"!i32", "column 'i32' of type int32"}},
      {-col("s"), invalid, {"-s", "column 's' of type string"}},
      {hour(col("i64")), invalid, {"hour(i64)", "column 'i64' of type int64", "timestamps"}},
      {seconds_between(col("begin"), col("f64")), invalid, {"column 'f64' of type double"}},
      {col("begin") < "soon", invalid, {"soon", "timestamp[us]", "2020-01-31"}},
      {col("i32").cast("number"), invalid, {"'number'", "float64"}},
      {col("s").cast("int32"), invalid, {"cast(s, int32)"}},
  };
  for (const auto& test : cases) {
    auto message = message_of(test.kind, [&] { evaluate(test.expression, piece); });
    for (const auto& part : test.parts) EXPECT_THAT(message, HasSubstr(part));
  }
}

TEST(ExpressionTest, ConstantsFillAColumn) {
  Piece piece = piece_of(expected().at("columns"));
  EXPECT_EQ(plain(*evaluate(lit(2) * 3, piece)), Json({6, 6, 6, 6, 6, 6}));
}

TEST(ExpressionTest, TimeZonesCountForHoursAndDays) {
  Piece piece;
  piece.rows = 1;
  auto type = arrow::timestamp(arrow::TimeUnit::SECOND, "America/New_York");
  auto seconds = array_from_json(arrow::int64(), {1577836800});  // 19:00 of a Tuesday there
  piece.set("t", check(seconds->View(type), "a time"));
  EXPECT_EQ(plain(*evaluate(hour(col("t")), piece)), Json({19}));
  EXPECT_EQ(plain(*evaluate(day_of_week(col("t")), piece)), Json({1}));
}

}  // namespace
}  // namespace manta::data
