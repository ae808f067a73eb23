#include <gmock/gmock.h>

#include <cmath>

#include "manta/data/expression_function_internal.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

const Json& expected_functions() {
  static const Json document = Json::parse(
#include "manta/data/expected/functions.inc"
  );
  return document;
}

Piece columns_of(const Json& columns) {
  Piece piece;
  for (const auto& [name, column] : columns.items()) {
    auto type = type_by_name(column.at("type"), "a test column");
    piece.rows = static_cast<int64_t>(column.at("values").size());
    bool is_time = type->id() == arrow::Type::TIMESTAMP || type->id() == arrow::Type::DURATION;
    auto stored = is_time                             ? arrow::int64()
                  : type->id() == arrow::Type::DATE32 ? arrow::int32()
                                                      : type;
    auto values = array_from_json(stored, column.at("values"));
    piece.set(name, stored == type ? values : check(values->View(type), "a time"));
  }
  return piece;
}

// Floating numbers may differ in the last digits: libraries compute sines in their own ways.
bool about_equal(const Json& a, const Json& b) {
  if (!a.is_number_float() || !b.is_number()) return a == b;
  double x = a.get<double>(), y = b.get<double>();
  return x == y || std::abs(x - y) <= 1e-13 * std::max(std::abs(x), std::abs(y));
}

Json json_at(const arrow::Array& array, int64_t row) {
  if (array.IsNull(row)) return nullptr;
  auto scalar = check(array.GetScalar(row), "a value");
  if (array.type_id() == arrow::Type::BOOL)
    return static_cast<arrow::BooleanScalar&>(*scalar).value;
  if (array.type_id() == arrow::Type::STRING) return scalar->ToString();
  if (arrow::is_floating(array.type_id())) {
    double value =
        static_cast<arrow::DoubleScalar&>(*check(scalar->CastTo(arrow::float64()), "a number"))
            .value;
    if (!std::isfinite(value)) return std::isnan(value) ? "nan" : value < 0 ? "-inf" : "inf";
    return value;
  }
  auto stored = array.type()->bit_width() == 32 ? arrow::int32() : arrow::int64();
  auto number = check(check(array.View(stored), "integers")->GetScalar(row), "an integer");
  return static_cast<arrow::Int64Scalar&>(*check(number->CastTo(arrow::int64()), "int64")).value;
}

void expect_values(const Json& test, const Piece& piece, int64_t from) {
  auto expression = Expression::from_json(test.at("expression"));
  auto result = evaluate(expression, piece);
  EXPECT_EQ(result->type()->ToString(), test.at("type").get<std::string>())
      << expression.to_string();
  ASSERT_EQ(result->length(), piece.rows);
  for (int64_t row = 0; row < piece.rows; ++row) {
    const Json& right = test.at("values").at(static_cast<size_t>(from + row));
    auto value = json_at(*result, row);
    EXPECT_TRUE(about_equal(value, right)) << expression.to_string() << " in row " << from + row
                                           << " is " << value << ", not " << right;
  }
  EXPECT_EQ(expression.to_json(), test.at("expression"));
}

TEST(FunctionsTest, ComputeWhatDuckDbAndPythonCompute) {
  Piece piece = columns_of(expected_functions().at("columns"));
  for (const auto& test : expected_functions().at("cases")) expect_values(test, piece, 0);
}

TEST(FunctionsTest, ColumnsThatAreSlicesGiveTheSame) {
  Piece whole = columns_of(expected_functions().at("columns"));
  for (int64_t from : {1, 11, 60}) {
    Piece piece = whole;
    piece.rows = whole.rows - from;
    for (auto& column : piece.columns) column = column->Slice(from);
    for (const auto& test : expected_functions().at("cases")) expect_values(test, piece, from);
  }
}

TEST(FunctionsTest, EachIsCheckedAgainstAnotherImplementation) {
  std::set<std::string> checked = {"seconds_between"};  // expression_test.cc
  std::function<void(const Json&)> collect = [&](const Json& json) {
    if (json.contains("op")) checked.insert(json.at("op"));
    if (json.contains("args"))
      std::for_each(json.at("args").begin(), json.at("args").end(), collect);
  };
  for (const auto& test : expected_functions().at("cases")) collect(test.at("expression"));
  for (const auto& name : function_names()) EXPECT_TRUE(checked.contains(name)) << name;
}

TEST(FunctionsTest, TextsOfThem) {
  auto a = col("a");
  struct Case {
    Expression expression;
    std::string text;
  };
  const Case cases[] = {
      {a % 3, "a % 3"},
      {(a % 3) * 2, "(a % 3) * 2"},
      {a.lower().contains("x"), "contains(lower(a), \"x\")"},
      {a.substring(1, 2) + "!", "substring(a, 1, 2) + \"!\""},
      {a.between(1, 4), "(a >= 1) && (a <= 4)"},
      {a.is_in({1, 2.5}), "is_in(a, 1, 2.5)"},
      {a.clip(0, 1), "min_of(max_of(a, 0), 1)"},
      {a.fill_null(0).round(2), "round(coalesce(a, 0), 2)"},
      {when(a < 0, "low").when(a < 9, "middle").otherwise("high"),
       "if_else(a < 0, \"low\", a < 9, \"middle\", \"high\")"},
      {a + std::chrono::hours(2), "a + 7200 s"},
      {a - std::chrono::milliseconds(1500), "a - 1500 ms"},
      {a + std::chrono::nanoseconds(-1), "a + -1 ns"},
  };
  for (const auto& test : cases) {
    EXPECT_EQ(test.expression.to_string(), test.text);
    auto copy = Expression::from_json(Json::parse(test.expression.to_json().dump()));
    EXPECT_EQ(copy.to_string(), test.text);
    EXPECT_EQ(copy.to_json(), test.expression.to_json());
  }
}

Piece one_row_of(const std::map<std::string, std::shared_ptr<arrow::Array>>& columns) {
  Piece piece;
  piece.rows = columns.begin()->second->length();
  for (const auto& [name, column] : columns) piece.set(name, column);
  return piece;
}

TEST(FunctionsTest, WhatIsNotChosenCannotFail) {
  Piece piece = one_row_of({{"a", array_from_json(arrow::int64(), {7, 8, 9, nullptr})},
                            {"n", array_from_json(arrow::int64(), {2, 0, nullptr, 0})},
                            {"s", array_from_json(arrow::utf8(), {"1", "x", "3", "x"})}});
  auto values = [&](const Expression& expression) {
    auto result = evaluate(expression, piece);
    Json list = Json::array();
    for (int64_t i = 0; i < result->length(); ++i) list.push_back(json_at(*result, i));
    return list;
  };
  EXPECT_EQ(values(if_else(col("n") != 0, col("a") % col("n"), -1)), Json({1, -1, -1, -1}));
  EXPECT_EQ(values(if_else(col("s") == "x", 0, col("s").cast("int64"))), Json({1, 0, 3, 0}));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { values(if_else(col("n") == 0, col("a") % col("n"), -1)); }),
              HasSubstr("a % n divides by zero"));
  // Rows whose condition takes the other branch are not computed.
  EXPECT_EQ(values(if_else(col("a").is_null(), 5, col("a"))), Json({7, 8, 9, 5}));
}

TEST(FunctionsTest, NaNAndTheTwoZeros) {
  arrow::DoubleBuilder builder;
  check(builder.AppendValues({NAN, -0.0, 0.0, 1.0}), "numbers");
  Piece piece = one_row_of({{"x", check(builder.Finish(), "numbers")}});
  auto values = [&](const Expression& expression) {
    auto result = evaluate(expression, piece);
    Json list = Json::array();
    for (int64_t i = 0; i < result->length(); ++i) list.push_back(json_at(*result, i));
    return list;
  };
  EXPECT_EQ(values(col("x").is_nan()), Json({true, false, false, false}));
  EXPECT_EQ(values(col("x").is_in({0})), Json({false, true, true, false}));
  EXPECT_EQ(values(col("x").is_in({-0.0, NAN})), Json({false, true, true, false}));
  EXPECT_EQ(values(col("x").is_in({})), Json({false, false, false, false}));
  EXPECT_EQ(values(min_of(col("x"), 0.5)), Json({"nan", -0.0, 0.0, 0.5}));
  EXPECT_EQ(values(max_of(0.5, col("x"))), Json({"nan", 0.5, 0.5, 1.0}));
  EXPECT_EQ(values(col("x").clip(0, 0.5)).at(3), Json(0.5));
}

TEST(FunctionsTest, ExactOrAnError) {
  auto seconds = array_from_json(arrow::int64(), {INT64_MAX});
  Piece piece = one_row_of(
      {{"i", array_from_json(arrow::int64(), {INT64_MIN})},
       {"u", array_from_json(arrow::uint64(), {UINT64_MAX})},
       {"zero", array_from_json(arrow::int64(), {0})},
       {"s", array_from_json(arrow::utf8(), {"abc"})},
       {"bad", check(array_from_json(arrow::binary(), {"x"})->View(arrow::binary()), "bytes")},
       {"t", check(seconds->View(arrow::timestamp(arrow::TimeUnit::SECOND)), "time")},
       {"z",
        check(seconds->View(arrow::timestamp(arrow::TimeUnit::SECOND, "Europe/Berlin")), "time")},
       {"n",
        check(array_from_json(arrow::int64(), {0})->View(arrow::timestamp(arrow::TimeUnit::NANO)),
              "time")},
       {"d", check(seconds->View(arrow::duration(arrow::TimeUnit::NANO)), "duration")}});
  const std::pair<Expression, std::string> cases[] = {
      {col("i").abs(), "abs(i) does not fit into an int64"},
      {col("u") % 3, "does not fit into an int64"},
      {col("u").floor(), "does not fit into an int64"},
      {col("i").round(-19), "does not fit into an int64"},
      {col("i") % col("zero"), "divides by zero"},
      {col("t").year(), "does not fit into 32 bits"},
      {col("t").date(), "does not fit into 32 bits"},
      {col("z").hour(), "too far away"},
      {col("t") - col("n"), "does not fit into 64 bits"},
      {col("d") + std::chrono::seconds(1), "does not fit into 64 bits"},
      {col("d") * 2, "does not fit into 64 bits"},
      {col("t") - col("z"), "time zone"},
      {col("t") + col("t"), "both sides must be numbers"},
      {col("t") * 2, "both sides must be numbers"},
      {col("s") + 1, "puts texts together"},
      {col("s") - "x", "both sides must be numbers"},
      {col("s").sqrt(), "needs numbers"},
      {col("i").lower(), "needs texts"},
      {col("bad").length(), "needs texts"},
      {col("i").year(), "needs timestamps"},
      {col("i").total_seconds(), "needs durations"},
      {col("s").is_nan(), "only numbers"},
      {col("i").is_in({"a"}), "compare numbers with numbers"},
      {col("i").is_in({col("zero")}), "needs constants, not zero"},
      {coalesce({col("i"), col("s")}), "of one kind"},
      {if_else(col("i"), 1, 2), "needs a condition"},
      {min_of(col("s"), 3), "compare numbers with numbers"},
      {col("s").cast("decimal(3)"), "no such type"},
      {col("s").substring(0, -1), "length of at least 0"},
  };
  // Functions that give a float64 take every integer, as `/` does.
  auto number = [&](const Expression& expression) {
    return static_cast<const arrow::DoubleArray&>(*evaluate(expression, piece)).Value(0);
  };
  EXPECT_EQ(number(col("u").sqrt()), 4294967296.0);
  EXPECT_DOUBLE_EQ(number(col("u").log()), std::log(18446744073709551615.0));
  EXPECT_EQ(number(col("u") / 2), 9223372036854775808.0);
  for (const auto& [expression, part] : cases) {
    EXPECT_THAT(
        message_of(ErrorKind::kInvalidArgument, [&, e = expression] { evaluate(e, piece); }),
        HasSubstr(part))
        << expression.to_string();
  }
}

TEST(FunctionsTest, TextsThatAreNotUtf8AreRefused) {
  auto bytes = std::make_shared<arrow::StringArray>(
      1, arrow::Buffer::FromString(std::string("\0\0\0\0\1\0\0\0", 8)),
      arrow::Buffer::FromString("\xff"));
  Piece piece = one_row_of({{"s", bytes}});
  for (const Expression& expression :
       {col("s").length(), col("s").lower(), col("s").trim(), col("s").substring(0, 1)}) {
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { evaluate(expression, piece); }),
                HasSubstr("not UTF-8"));
  }
}

TEST(FunctionsTest, TimesOfDayHaveHoursAndSeconds) {
  auto time =
      check(array_from_json(arrow::int32(), {3661})->View(arrow::time32(arrow::TimeUnit::SECOND)),
            "a time");
  Piece piece = one_row_of({{"t", time}});
  auto value = [&](const Expression& expression) {
    return json_at(*evaluate(expression, piece), 0);
  };
  EXPECT_EQ(value(col("t").hour()), Json(1));
  EXPECT_EQ(value(col("t").minute()), Json(1));
  EXPECT_EQ(value(col("t").second()), Json(1));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { value(col("t").year()); }),
              HasSubstr("needs timestamps"));
}

TEST(FunctionsTest, LocalTimeIsThatOfTheColumnsZone) {
  auto type = arrow::timestamp(arrow::TimeUnit::SECOND, "America/New_York");
  auto seconds = array_from_json(arrow::int64(), {1577836800});  // 19:00 of 31 December 2019 there
  Piece piece = one_row_of({{"t", check(seconds->View(type), "a time")}});
  auto value = [&](const Expression& expression) {
    return json_at(*evaluate(expression, piece), 0);
  };
  EXPECT_EQ(value(col("t").year()), Json(2019));
  EXPECT_EQ(value(col("t").day_of_year()), Json(365));
  EXPECT_EQ(value(col("t").hour()), Json(19));
  EXPECT_EQ(value(col("t").date()), Json(1577836800 / 86400 - 1));
  EXPECT_EQ(value(col("t") - "2020-01-01 00:00:00+00:00"), Json(0));
}

TEST(FunctionsTest, AllNullColumnsGiveNulls) {
  Piece piece = one_row_of({{"n", array_from_json(arrow::null(), {nullptr, nullptr})}});
  auto n = col("n");
  for (const Expression& expression :
       {n % 2, n.abs(), n.sqrt(), n.lower(), n.contains("x"), n.year(), n.hour(), n.date(),
        n.total_seconds(), n.is_nan(), n.is_in({1, 2}), n.substring(1), n.round(1), n.pow(n),
        min_of(n, 1), coalesce({n, n}), if_else(n, n, n), n + "x", n.cast("int32")}) {
    auto result = evaluate(expression, piece);
    EXPECT_EQ(result->null_count(), 2) << expression.to_string();
  }
  EXPECT_EQ(evaluate(n.fill_null(3), piece)->null_count(), 0);
  EXPECT_EQ(evaluate(if_else(n, 1, 2), piece)->null_count(), 0);
}

TEST(FunctionsTest, CastsToEveryType) {
  Piece piece = one_row_of({{"i", array_from_json(arrow::int64(), {5})},
                            {"s", array_from_json(arrow::utf8(), {"2020-01-31"})}});
  for (const char* type : {"bool",
                           "int8",
                           "int16",
                           "int32",
                           "int64",
                           "uint8",
                           "uint16",
                           "uint32",
                           "uint64",
                           "float16",
                           "float32",
                           "float64",
                           "string",
                           "large_string",
                           "timestamp[s]",
                           "timestamp[ns]",
                           "duration[ms]",
                           "decimal128(21, 2)",
                           "decimal256(50, 3)",
                           "timestamp[us, tz=Europe/Berlin]"}) {
    auto result = evaluate(col("i").cast(type), piece);
    EXPECT_TRUE(result->type()->Equals(*type_by_name(type, ""))) << type;
  }
  for (const char* type : {"binary", "large_binary", "date32", "date64", "timestamp[ms]"}) {
    EXPECT_TRUE(evaluate(col("s").cast(type), piece)->type()->Equals(*type_by_name(type, "")));
  }
  EXPECT_EQ(json_at(*evaluate(col("s").cast("date32").day(), piece), 0), Json(31));
}

}  // namespace
}  // namespace manta::data
