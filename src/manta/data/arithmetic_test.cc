#include <gmock/gmock.h>

#include <cmath>

#include "manta/base/names_internal.h"
#include "manta/data/compare_cases_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"

namespace manta::data {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

std::optional<BigInteger> integer_of(const KnownColumn& column, size_t row) {
  if (!column.values[row]) return std::nullopt;
  return BigInteger(numerator(*column.values[row]->number));
}

// Exact, or an error that says which expression.
void expect_exact(const Expression& expression, const Piece& piece,
                  const std::optional<BigInteger>& right) {
  bool fits = !right || (*right >= std::numeric_limits<int64_t>::min() &&
                         *right <= std::numeric_limits<int64_t>::max());
  if (!fits) {
    auto message = message_of(ErrorKind::kInvalidArgument, [&] { evaluate(expression, piece); });
    EXPECT_THAT(message, HasSubstr(expression.to_string()));
    EXPECT_THAT(message, HasSubstr("does not fit into an int64"));
    return;
  }
  std::shared_ptr<arrow::Array> result;
  try {
    result = evaluate(expression, piece);
  } catch (const Error& error) {  // a uint64 that no int64 holds
    EXPECT_THAT(error.what(), HasSubstr("not in range"));
    return;
  }
  ASSERT_EQ(result->type_id(), arrow::Type::INT64);
  ASSERT_EQ(result->IsValid(0), right.has_value()) << expression.to_string();
  if (right) {
    EXPECT_EQ(static_cast<const arrow::Int64Array&>(*result).Value(0), *right)
        << expression.to_string();
  }
}

TEST(ArithmeticTest, IntegersAreExactOrAnError) {
  std::vector<KnownColumn> columns;
  for (const auto& type :
       {arrow::int8(), arrow::int64(), arrow::uint8(), arrow::uint32(), arrow::uint64()}) {
    columns.push_back(counting("number", type, 1));
  }
  for (const auto& a : columns) {
    for (const auto& b : columns) {
      for (size_t i = 0; i < a.values.size(); ++i) {
        for (size_t j = i % 3; j < b.values.size(); j += 3) {
          Piece piece;
          piece.rows = 1;
          piece.set("a", a.column->Slice(static_cast<int64_t>(i), 1));
          piece.set("b", b.column->Slice(static_cast<int64_t>(j), 1));
          auto x = integer_of(a, i), y = integer_of(b, j);
          auto both = [&](auto&& combine) {
            return x && y ? std::optional<BigInteger>(combine(*x, *y)) : std::nullopt;
          };
          using I = BigInteger;
          expect_exact(col("a") + col("b"), piece, both([](I p, I q) { return I(p + q); }));
          expect_exact(col("a") - col("b"), piece, both([](I p, I q) { return I(p - q); }));
          expect_exact(col("a") * col("b"), piece, both([](I p, I q) { return I(p * q); }));
          if (j == 0) expect_exact(-col("a"), piece, x ? std::optional<I>(-*x) : std::nullopt);
        }
      }
    }
  }
}

TEST(ArithmeticTest, DividingGivesDoublesAndByZeroInfinityOrNaN) {
  Piece piece;
  piece.rows = 4;
  piece.set("a", array_from_json(arrow::int32(), {7, -7, 0, nullptr}));
  piece.set("zero", array_from_json(arrow::uint8(), {0, 0, 0, 0}));
  piece.set("two", array_from_json(arrow::int64(), {2, 2, 2, 2}));
  auto divide = [&](const Expression& expression) {
    auto result = std::static_pointer_cast<arrow::DoubleArray>(evaluate(expression, piece));
    EXPECT_EQ(result->type_id(), arrow::Type::DOUBLE);
    EXPECT_TRUE(result->IsNull(3));
    return std::vector<double>(result->raw_values(), result->raw_values() + 3);
  };
  EXPECT_THAT(divide(col("a") / col("two")), ElementsAre(3.5, -3.5, 0));
  EXPECT_THAT(divide(col("a") / col("zero")), ElementsAre(INFINITY, -INFINITY, testing::IsNan()));
  EXPECT_THAT(divide(col("a") / 0), ElementsAre(INFINITY, -INFINITY, testing::IsNan()));
  EXPECT_THAT(divide(col("a") / -0.0), ElementsAre(-INFINITY, INFINITY, testing::IsNan()));
}

TEST(ArithmeticTest, WithADecimalOrAFloatingNumberItIsInDoubles) {
  Piece piece;
  piece.rows = 1;
  piece.set("half",
            check(array_from_json(arrow::uint16(), {0x3e00})->View(arrow::float16()), "1.5"));
  piece.set("n", array_from_json(arrow::uint64(), {3}));
  auto value = [&](const Expression& expression) {
    auto result = evaluate(expression, piece);
    EXPECT_EQ(result->type_id(), arrow::Type::DOUBLE);
    return static_cast<const arrow::DoubleArray&>(*result).Value(0);
  };
  for (const auto& type : {arrow::decimal32(5, 2), arrow::decimal64(10, 2),
                           arrow::decimal128(20, 2), arrow::decimal256(60, 2)}) {
    piece.set("price", array_from_json(type, {"12.50"}));
    EXPECT_EQ(value(col("price") * 2), 25.0);
    EXPECT_EQ(value(col("price") + col("price")), 25.0);
    EXPECT_EQ(value(-col("price")), -12.5);
  }
  EXPECT_EQ(value(col("half") * col("n")), 4.5);
  EXPECT_EQ(value(col("n") - 0.5), 2.5);
  piece.set("n", array_from_json(arrow::uint64(), {18446744073709551615u}));
  EXPECT_EQ(value(col("n") * 1.0 + 1), 0x1p64);
}

// Rows that a filter removed, or the left side of &&, cannot overflow.
TEST(ArithmeticTest, OnlyKeptRowsCanFail) {
  ParquetFolder folder;
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("n", arrow::int64())}),
      {array_from_json(arrow::int64(), {0, 1, 2, 3}),
       array_from_json(arrow::int64(), {5, std::numeric_limits<int64_t>::max(), 7, nullptr})});
  auto dataset = read_parquet(folder.write("a.parquet", *table, 4));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument,
                         [&] { dataset.with_column("m", col("n") + 1).to_table(); }),
              testing::AllOf(HasSubstr("n + 1 does not fit into an int64"),
                             HasSubstr("row group 0 of '"), HasSubstr("by 1.0")));
  auto kept = dataset.filter(col("id") != 1);
  EXPECT_THAT(ints(*kept.with_column("m", col("n") + 1).drop_na().to_table(), "m"),
              ElementsAre(6, 8));
  EXPECT_THAT(ints(*dataset.filter(col("id") != 1 && col("n") + 1 > 6).to_table(), "id"),
              ElementsAre(2));
}

TEST(ArithmeticTest, SecondsBetweenTimesThatAreFarApart) {
  Piece piece;
  piece.rows = 3;
  auto times = [](arrow::TimeUnit::type unit, const Json& values) {
    return check(array_from_json(arrow::int64(), values)->View(arrow::timestamp(unit)), "times");
  };
  int64_t first = std::numeric_limits<int64_t>::min(), last = std::numeric_limits<int64_t>::max();
  piece.set("s", times(arrow::TimeUnit::SECOND, {first, 253402300799, nullptr}));
  piece.set("t", times(arrow::TimeUnit::SECOND, {last, 5, 1}));
  piece.set("ns", times(arrow::TimeUnit::NANO, {last, 999999999, 1}));
  auto seconds = [](const BigInteger& from, const BigInteger& to, const BigInteger& per_second) {
    BigInteger day = 86400 * per_second, rest = (to - from) % day;
    return static_cast<int32_t>(BigInteger((rest < 0 ? rest + day : rest) / per_second));
  };
  auto row = [&](const Expression& expression, int64_t i) {
    auto result = evaluate(expression, piece);
    EXPECT_TRUE(result->IsNull(2));
    return static_cast<const arrow::Int32Array&>(*result).Value(i);
  };
  EXPECT_EQ(row(seconds_between(col("s"), col("t")), 0), seconds(first, last, 1));
  EXPECT_EQ(row(seconds_between(col("t"), col("s")), 0), seconds(last, first, 1));
  EXPECT_EQ(row(seconds_between(col("s"), col("t")), 1), seconds(253402300799, 5, 1));
  BigInteger nano = 1000000000;
  EXPECT_EQ(row(seconds_between(col("s"), col("ns")), 0), seconds(first * nano, last, nano));
  EXPECT_EQ(row(seconds_between(col("ns"), col("s")), 0), seconds(last, first * nano, nano));
  EXPECT_EQ(row(seconds_between(col("ns"), col("s")), 1),
            seconds(999999999, 253402300799 * nano, nano));
}

}  // namespace
}  // namespace manta::data
