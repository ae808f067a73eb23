// Every pair of types against exact arithmetic.

#include <arrow/compute/api.h>
#include <gmock/gmock.h>

#include "manta/base/names_internal.h"
#include "manta/data/compare_cases_internal.h"
#include "manta/data/compare_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

using testing::HasSubstr;

/// What an expression gives for each row: true, false, or nothing.
std::vector<std::optional<bool>> flags_of(const Expression& expression, const Piece& piece) {
  auto result = evaluate(expression, piece);
  EXPECT_EQ(result->type_id(), arrow::Type::BOOL) << expression.to_string();
  EXPECT_EQ(result->length(), piece.rows);
  check(result->ValidateFull(), "flags");
  auto& flags = static_cast<const arrow::BooleanArray&>(*result);
  std::vector<std::optional<bool>> values;
  for (int64_t i = 0; i < flags.length(); ++i) {
    values.push_back(flags.IsNull(i) ? std::nullopt : std::optional(flags.Value(i)));
  }
  return values;
}

std::string text_of(const arrow::Array& column, int64_t row) {
  return check(column.GetScalar(row), "a value")->ToString();
}

/// Compares the columns of a piece, "a" and "b", by all operators; `orders` has the right results.
void expect_orders(const Piece& piece,
                   const std::vector<std::optional<std::partial_ordering>>& orders,
                   const std::string& what) {
  for (ExpressionOp op : kComparisons) {
    auto expression = make_comparison(op, col("a"), col("b"));
    auto flags = flags_of(expression, piece);
    for (size_t i = 0; i < orders.size(); ++i) {
      std::optional<bool> right;
      if (orders[i]) right = fulfils(*orders[i], op);
      ASSERT_EQ(flags[i], right) << what << ": " << expression.to_string() << " with a = "
                                 << text_of(*piece.columns[0], static_cast<int64_t>(i))
                                 << ", b = " << text_of(*piece.columns[1], static_cast<int64_t>(i));
    }
  }
}

/// About where a value lies; only used to find values that are near each other.
double about(const std::optional<Known>& value) {
  if (!value || value->bytes) return 0;
  return value->number ? value->number->convert_to<double>() : value->not_finite;
}
std::vector<double> about(const std::vector<std::optional<Known>>& values) {
  std::vector<double> result;
  for (const auto& value : values) result.push_back(about(value));
  return result;
}

// Makes rows that pair values of two columns: all pairs of close values, and a quarter of the
// others.
void expect_all_pairs(const KnownColumn& a, const KnownColumn& b) {
  auto about_a = about(a.values), about_b = about(b.values);
  arrow::Int64Builder left, right;
  std::vector<std::optional<std::partial_ordering>> orders;
  for (size_t i = 0; i < a.values.size(); ++i) {
    for (size_t j = 0; j < b.values.size(); ++j) {
      bool close = std::abs(about_a[i] - about_b[j]) <= 1e-9 * std::abs(about_a[i]);
      if (!close && (i + j) % 4 != 0) continue;
      check(left.Append(static_cast<int64_t>(i)), "a row");
      check(right.Append(static_cast<int64_t>(j)), "a row");
      orders.emplace_back();
      if (a.values[i] && b.values[j]) orders.back() = order(*a.values[i], *b.values[j]);
    }
  }
  Piece piece;
  piece.rows = static_cast<int64_t>(orders.size());
  piece.set("a", take_rows(*a.column, *check(left.Finish(), "rows")));
  piece.set("b", take_rows(*b.column, *check(right.Finish(), "rows")));
  expect_orders(piece, orders, a.name + " with " + b.name);
  // The first cases use slices: their null bits then begin inside a byte.
  piece.rows = std::min<int64_t>(piece.rows - 3, 20);
  for (auto& column : piece.columns) column = column->Slice(3, piece.rows);
  orders = {orders.begin() + 3, orders.begin() + 3 + piece.rows};
  expect_orders(piece, orders, a.name + " with " + b.name + ", sliced");
}

TEST(CompareTest, ColumnsOfAllPairsOfTypes) {
  auto columns = known_columns();
  int pairs = 0;
  for (const auto& a : columns) {
    for (const auto& b : columns) {
      if (a.family != b.family) continue;
      expect_all_pairs(a, b);
      if (HasFatalFailure()) return;
      ++pairs;
    }
  }
  EXPECT_GT(pairs, 20 * 20);
}

TEST(CompareTest, WhatSaysDifferentThingsIsRefused) {
  auto columns = known_columns();
  for (const auto& a : columns) {
    for (const auto& b : columns) {
      if (a.family == b.family) continue;
      Piece piece;
      piece.set("a", a.column->Slice(0, 0));
      piece.set("b", b.column->Slice(0, 0));
      auto message =
          message_of(ErrorKind::kInvalidArgument, [&] { evaluate(col("a") < col("b"), piece); });
      EXPECT_THAT(message, HasSubstr(a.name));
      EXPECT_THAT(message, HasSubstr(b.name));
    }
  }
}

void expect_is_in(const KnownColumn& column,
                  const std::vector<std::pair<Expression, Known>>& constants);

void expect_with_constants(const KnownColumn& column,
                           const std::vector<std::pair<Expression, Known>>& constants) {
  Piece piece;
  piece.rows = column.column->length();
  piece.set("x", column.column);
  for (const auto& [constant, value] : constants) {
    std::vector<std::optional<std::partial_ordering>> orders;
    for (const auto& each : column.values) {
      orders.emplace_back();
      if (each) orders.back() = order(*each, value);
    }
    for (ExpressionOp op : kComparisons) {
      for (bool column_first : {true, false}) {
        auto expression = column_first ? make_comparison(op, col("x"), constant)
                                       : make_comparison(op, constant, col("x"));
        auto flags = flags_of(expression, piece);
        for (size_t i = 0; i < orders.size(); ++i) {
          std::optional<bool> right;
          if (orders[i]) right = fulfils(column_first ? *orders[i] : 0 <=> *orders[i], op);
          ASSERT_EQ(flags[i], right) << expression.to_string() << " with " << column.name << " "
                                     << text_of(*column.column, static_cast<int64_t>(i));
        }
      }
    }
  }
  expect_is_in(column, constants);
}

// Three constants at a time: some near the values, and some far away.
void expect_is_in(const KnownColumn& column,
                  const std::vector<std::pair<Expression, Known>>& constants) {
  Piece piece;
  piece.rows = column.column->length();
  piece.set("x", column.column);
  for (size_t first = 0; first < constants.size(); ++first) {
    std::vector<Expression> some;
    std::vector<Known> values;
    for (size_t i : {first, (first + 1) % constants.size(), (first * 7 + 3) % constants.size()}) {
      some.push_back(constants[i].first);
      values.push_back(constants[i].second);
    }
    auto expression = col("x").is_in(some);
    auto flags = flags_of(expression, piece);
    for (size_t i = 0; i < column.values.size(); ++i) {
      std::optional<bool> right;
      if (column.values[i]) {
        right = std::any_of(values.begin(), values.end(), [&](const Known& value) {
          return order(*column.values[i], value) == std::partial_ordering::equivalent;
        });
      }
      ASSERT_EQ(flags[i], right) << expression.to_string() << " with " << column.name << " "
                                 << text_of(*column.column, static_cast<int64_t>(i));
    }
  }
}

TEST(CompareTest, ColumnsWithConstants) {
  for (const auto& column : known_columns()) {
    expect_with_constants(column, constants_for(column));
    if (HasFatalFailure()) return;
  }
}

TEST(CompareTest, ConstantsWithConstants) {
  Piece piece;
  piece.rows = 1;
  auto numbers = number_constants();
  for (const auto& [a, left] : numbers) {
    for (const auto& [b, right] : numbers) {
      auto expression = make_comparison(ExpressionOp::kLess, a, b);
      ASSERT_EQ(flags_of(expression, piece)[0], fulfils(order(left, right), ExpressionOp::kLess))
          << expression.to_string();
    }
  }
}

// The values of the original bug report.
TEST(CompareTest, UnsignedWithNegative) {
  Piece piece;
  piece.rows = 5;
  piece.set("u", array_from_json(arrow::uint64(),
                                 {0, 1, 5, 9223372036854775808u, 18446744073709551615u}));
  piece.set("i", array_from_json(arrow::int64(), {-1, 1, 4, -9223372036854775807, -1}));
  using Flags = std::vector<std::optional<bool>>;
  EXPECT_EQ(flags_of(col("u") > -1, piece), Flags(5, true));
  EXPECT_EQ(flags_of(col("u") == -1, piece), Flags(5, false));
  EXPECT_EQ(flags_of(col("u") > col("i"), piece), (Flags{true, false, true, true, true}));
  EXPECT_EQ(flags_of(col("u") == col("i"), piece), (Flags{false, true, false, false, false}));
  EXPECT_EQ(flags_of(col("u") == 18446744073709551615u, piece),
            (Flags{false, false, false, false, true}));
}

TEST(CompareTest, EncodedColumnsAreWhatTheyStandFor) {
  Piece piece;
  piece.rows = 4;
  start_compute();
  auto plain = array_from_json(arrow::uint64(), {7, nullptr, 18446744073709551615u, 7});
  piece.set("plain", plain);
  piece.set("dictionary", check(arrow::compute::DictionaryEncode(plain), "").make_array());
  piece.set("runs", check(arrow::compute::RunEndEncode(plain), "").make_array());
  auto values = array_from_json(arrow::utf8(), {"x", nullptr});
  piece.set("null inside", check(arrow::DictionaryArray::FromArrays(
                                     array_from_json(arrow::int8(), {0, 1, nullptr, 0}), values),
                                 "a dictionary"));
  piece.set("null", check(arrow::MakeArrayOfNull(arrow::null(), 4), "nulls"));
  using Flags = std::vector<std::optional<bool>>;
  for (const char* name : {"dictionary", "runs"}) {
    EXPECT_EQ(flags_of(col(name) > -1, piece), (Flags{true, std::nullopt, true, true})) << name;
    EXPECT_EQ(flags_of(col(name) == col("plain"), piece), (Flags{true, std::nullopt, true, true}));
    EXPECT_EQ(flags_of(col(name).is_null(), piece), (Flags{false, true, false, false})) << name;
  }
  EXPECT_EQ(flags_of(col("null inside") == "x", piece),
            (Flags{true, std::nullopt, std::nullopt, true}));
  EXPECT_EQ(flags_of(col("null inside").is_null(), piece), (Flags{false, true, true, false}));
  for (const auto& other : {col("plain"), lit(3), col("null"), lit("x"), col("null inside")}) {
    EXPECT_EQ(flags_of(col("null") < other, piece), Flags(4, std::nullopt));
    EXPECT_EQ(flags_of(other == col("null"), piece), Flags(4, std::nullopt));
  }
}

TEST(CompareTest, TimesWithAndWithoutZoneAreNotCompared) {
  Piece piece;
  piece.set("local", array_from_json(arrow::timestamp(arrow::TimeUnit::SECOND), Json::array()));
  piece.set("there",
            array_from_json(arrow::timestamp(arrow::TimeUnit::MILLI, "UTC"), Json::array()));
  for (const auto& expression : {col("local") < col("there"), col("there") == col("local"),
                                 seconds_between(col("local"), col("there"))}) {
    EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { evaluate(expression, piece); }),
                HasSubstr("time zone"));
  }
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { evaluate(col("there") < "2020-01-01 00:00:00", piece); }),
              HasSubstr("offset"));
}

}  // namespace
}  // namespace manta::data
