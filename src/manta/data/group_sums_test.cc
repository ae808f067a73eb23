#include <arrow/api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <random>

#include "manta/data/dataset.h"
#include "manta/data/group_sums_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/sources.h"
#include "manta/io/arrow_status_internal.h"

namespace manta::data {
namespace {

using ArrayPtr = std::shared_ptr<arrow::Array>;

template <class Builder, class Draw>
ArrayPtr column(int64_t rows, double nulls, std::mt19937_64& random, Draw draw) {
  Builder builder;
  std::uniform_real_distribution<double> part(0, 1);
  for (int64_t i = 0; i < rows; ++i) {
    check(part(random) < nulls ? builder.AppendNull() : builder.Append(draw()), "a test");
  }
  return check(builder.Finish(), "a test");
}

// Keys "k8" to "k64" of `kinds` values each, "f" with both zeros and two kinds of NaN among them;
// values "x" (float64) and "y" (float32), some of which are no numbers.
std::shared_ptr<arrow::Table> random_table(int64_t rows, uint64_t kinds) {
  std::mt19937_64 random(rows + 7 * kinds);
  auto kind = [&] { return random() % kinds; };
  std::normal_distribution<double> normal(0, 1e6);
  const double inf = std::numeric_limits<double>::infinity();
  const double special[] = {0.0, -0.0, NAN, -NAN, inf, -inf, 1.5};
  auto key = [&] { return kinds > 6 ? static_cast<double>(kind()) : special[kind()]; };
  auto value = [&] { return random() % 1000 == 0 ? special[random() % 7] : normal(random); };
  std::vector<std::pair<std::string, ArrayPtr>> all = {
      {"k8", column<arrow::Int8Builder>(rows, 0.1, random, [&] { return int8_t(kind()); })},
      {"k16", column<arrow::UInt16Builder>(rows, 0, random, [&] { return uint16_t(kind()); })},
      {"k32", column<arrow::Date32Builder>(rows, 0.2, random, [&] { return int32_t(kind()); })},
      {"k64", column<arrow::Int64Builder>(rows, 0.1, random, [&] { return int64_t(kind()) - 2; })},
      {"f", column<arrow::DoubleBuilder>(rows, 0.1, random, key)},
      {"x", column<arrow::DoubleBuilder>(rows, 0.1, random, value)},
      {"y", column<arrow::FloatBuilder>(rows, 0, random, [&] { return float(value()); })}};
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (auto& [name, array] : all) {
    fields.push_back(arrow::field(name, array->type()));
    columns.push_back(array);
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

// With another aggregate next to them, DuckDB adds up all rows.
void expect_sums_of_duckdb(const std::shared_ptr<arrow::Table>& table,
                           const std::vector<std::string>& keys) {
  std::vector<Aggregate> aggregates = {agg::count().as("rows"), agg::count("k8").as("known"),
                                       agg::sum("x"), agg::mean("x"), agg::mean("y")};
  ASSERT_TRUE(GroupSums::suits(keys, aggregates, *table->schema()));
  std::vector<Aggregate> more = aggregates;
  more.push_back(agg::max("k64"));
  ASSERT_FALSE(GroupSums::suits(keys, more, *table->schema()));
  auto run = [&](const std::vector<Aggregate>& some) {
    Dataset all = from_arrow(table);
    if (!keys.empty()) return all.groupby(keys).aggregate(some).to_table();
    return check(arrow::Table::FromRecordBatches({all.aggregate(some)}), "a test");
  };
  auto sums = run(aggregates), expected = run(more);
  expected = check(expected->RemoveColumn(expected->num_columns() - 1), "a test");
  arrow::EqualOptions exact =
      arrow::EqualOptions::Defaults().nans_equal(true).signed_zeros_equal(false);
  EXPECT_TRUE(sums->Equals(*expected, exact)) << sums->ToString() << expected->ToString();
}

TEST(GroupSumsTest, AreThoseOfDuckDbToTheLastBit) {
  for (uint64_t kinds : {1, 6, 100}) {
    auto table = random_table(20'000, kinds);
    for (const char* key : {"k8", "k16", "k32", "k64"}) expect_sums_of_duckdb(table, {key});
    expect_sums_of_duckdb(table, {});
  }
  auto table = random_table(20'000, 5);
  expect_sums_of_duckdb(table, {"k8", "k64"});
  expect_sums_of_duckdb(table, {"k32", "k8", "k16"});
}

TEST(GroupSumsTest, AreGivenToDuckDbWhereThereAreTooManyGroups) {
  expect_sums_of_duckdb(random_table(100'000, 50'000), {"k64"});
  expect_sums_of_duckdb(random_table(100'000, 100), {"k8", "k64"});
  expect_sums_of_duckdb(random_table(100'000, 90), {"k16", "k8", "k64"});
}

TEST(GroupSumsTest, GroupsThatDifferInBitsOnlyAreOne) {
  auto table = random_table(5'000, 6);
  auto groups =
      from_arrow(table).groupby("f").aggregate({agg::count().as("n"), agg::sum("x")}).to_table();
  ASSERT_EQ(groups->num_rows(), 5) << groups->ToString();  // -inf, 0, inf, NaN, null
  EXPECT_EQ(check(groups->GetColumnByName("f")->GetScalar(0), "a test")->ToString(), "-inf");
}

TEST(GroupSumsTest, OfNoRowsAreThoseOfNoGroups) {
  auto table = random_table(0, 5);
  expect_sums_of_duckdb(table, {"k8"});
  expect_sums_of_duckdb(table, {});
}

TEST(GroupSumsTest, WithoutSumsOfFloatingPointNumbersAreLeftToDuckDb) {
  auto schema = random_table(0, 5)->schema();
  EXPECT_FALSE(GroupSums::suits({"k8"}, {agg::count()}, *schema));
  EXPECT_FALSE(GroupSums::suits({"k8"}, {agg::sum("k64")}, *schema));
  EXPECT_FALSE(GroupSums::suits({"k8"}, {agg::sum("x"), agg::std("x")}, *schema));
}

}  // namespace
}  // namespace manta::data
