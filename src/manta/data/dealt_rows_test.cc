#include <arrow/api.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <set>

#include "manta/data/dataset.h"
#include "manta/data/dealt_rows_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stored_reader_internal.h"
#include "manta/data/wide_internal.h"
#include "manta/data/wide_query_internal.h"

namespace manta::data {
namespace {

NextBatch batches_of(const std::shared_ptr<arrow::Table>& table, int64_t rows) {
  auto reader = std::make_shared<arrow::TableBatchReader>(table);
  reader->set_chunksize(rows);
  return [reader]() -> BatchPtr { return check(reader->Next(), "rows of a test"); };
}

// (number, number modulo 1000, and the same as text, with nulls)
std::shared_ptr<arrow::Table> numbered(int64_t rows) {
  arrow::Int64Builder numbers, keys;
  arrow::BinaryBuilder texts;
  for (int64_t i = 0; i < rows; ++i) {
    check(numbers.Append(i), "a test");
    if (i % 1000 == 7) {
      check(keys.AppendNull(), "a test");
      check(texts.AppendNull(), "a test");
    } else {
      check(keys.Append(i % 1000), "a test");
      check(texts.Append(str("text that is longer than a word ", i % 1000)), "a test");
    }
  }
  return arrow::Table::Make(
      arrow::schema({arrow::field("", arrow::int64()), arrow::field("", arrow::int64()),
                     arrow::field("", arrow::binary())}),
      {check(numbers.Finish(), "a test"), check(keys.Finish(), "a test"),
       check(texts.Finish(), "a test")});
}

const DealOptions kTwoKeys = {.keys = 2, .memory_bytes = 1 << 20, .doing = "a test"};

TEST(DealtRows, RowsWithEqualKeysMeetInOnePartInTheirOrder) {
  constexpr int64_t kRows = 100'000;
  std::map<int64_t, int> part_of;
  std::set<int64_t> seen;
  int part = 0;
  auto results = run_dealt(
      {{batches_of(numbered(kRows), 1024), 1}}, kTwoKeys,
      [&](const std::vector<NextBatch>& parts, RowSink& sink) {
        int64_t last = -1;
        while (auto batch = parts[0]()) {
          auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
          for (int64_t i = 0; i < numbers.length(); ++i) {
            int64_t number = numbers.Value(i);
            EXPECT_LT(last, number);
            last = number;
            EXPECT_TRUE(seen.insert(number).second) << number;
            EXPECT_EQ(part_of.try_emplace(number % 1000, part).first->second, part) << number;
          }
          sink.add(batch);
        }
        ++part;
        return true;
      });
  EXPECT_EQ(std::ssize(seen), kRows);
  EXPECT_GT(part, 16) << "hardly any keys were told apart";
  ASSERT_TRUE(results);
  int64_t given = 0;
  auto next = one_after_another(std::move(*results), {}).next;
  while (auto batch = next()) given += batch->num_rows();
  EXPECT_EQ(given, kRows);
}

// Gives rows, then fails if there are too many.
PartQuery query_of_at_most(int64_t most) {
  return [most](const std::vector<NextBatch>& parts, RowSink& sink) {
    int64_t rows = 0;
    while (auto batch = parts[0]()) {
      rows += batch->num_rows();
      sink.add(batch);
    }
    if (rows > most) throw TooLittleMemory("too many rows");
    return true;
  };
}

TEST(DealtRows, APartThatIsTooLargeIsDealtOutAgain) {
  constexpr int64_t kRows = 50'000;
  auto results =
      run_dealt({{batches_of(numbered(kRows), 4096), 1}}, kTwoKeys, query_of_at_most(500));
  ASSERT_TRUE(results);
  EXPECT_GE(results->size(), 100U);
  std::set<int64_t> seen;
  auto next = one_after_another(std::move(*results), {}).next;
  while (auto batch = next()) {
    auto& numbers = static_cast<const arrow::Int64Array&>(*batch->column(0));
    for (int64_t i = 0; i < numbers.length(); ++i) {
      EXPECT_TRUE(seen.insert(numbers.Value(i)).second);  // rows of a failed query do not count
    }
  }
  EXPECT_EQ(std::ssize(seen), kRows);
}

TEST(DealtRows, OneKeyWithTooManyRowsIsAnError) {
  // Each key has 50 rows, and no deal splits them.
  EXPECT_THROW(run_dealt({{batches_of(numbered(50'000), 4096), 1}}, kTwoKeys, query_of_at_most(40)),
               TooLittleMemory);
}

TEST(DealtRows, Stops) {
  int asked = 0;
  DealOptions options = kTwoKeys;
  options.stopping = [&] { return ++asked > 3; };
  EXPECT_FALSE(
      run_dealt({{batches_of(numbered(50'000), 1024), 1}}, options, query_of_at_most(INT64_MAX)));
}

// The result of the last operation of a data set for the rows before it.
std::shared_ptr<arrow::Table> run_last(const Dataset& dataset, bool in_parts) {
  auto plan = dataset.plan();
  auto& last = dynamic_cast<const MaterialisingOperation&>(*plan->operations.back());
  EXPECT_TRUE(last.runs_in_parts());
  auto before = std::make_shared<Plan>(*plan);
  before->operations.pop_back();
  auto rows = Dataset(before).to_table();
  RowStore store(dataset.schema(), "a test");
  last.run({.next = batches_of(rows, 1000),
            .schema = rows->schema(),
            .live = std::nullopt,
            .threads = 2,
            .in_parts = in_parts},
           store);
  auto stored = store.finish();
  StoredReader reader(stored, stored->schema()->field_names());
  Batches batches;
  while (auto batch = reader.next()) batches.push_back(batch);
  return check(arrow::Table::FromRecordBatches(stored->schema(), batches), "a test");
}

void expect_same_in_parts(const Dataset& dataset) {
  auto whole = run_last(dataset, false), parts = run_last(dataset, true);
  EXPECT_TRUE(parts->Equals(*whole, arrow::EqualOptions::Defaults().nans_equal(true)))
      << dataset.explain() << "\n"
      << parts->ToString() << "\n"
      << whole->ToString();
}

// Keys with nulls, NaN and both zeros, more groups than GroupSums takes.
Dataset rows_with_keys(int64_t rows) {
  arrow::Int64Builder ids, keys;
  arrow::DoubleBuilder numbers, values;
  arrow::StringBuilder texts;
  for (int64_t i = 0; i < rows; ++i) {
    check(ids.Append(i), "a test");
    check(i % 97 == 0 ? keys.AppendNull() : keys.Append(i * 7919 % 5003), "a test");
    check(
        numbers.Append(i % 101 == 0 ? NAN : static_cast<double>(i % 11 - 5) * (i % 2 ? 0.5 : -0.5)),
        "a test");
    check(values.Append(static_cast<double>(i) * 0.1), "a test");
    check(texts.Append(str("text ", i % 307)), "a test");
  }
  return data::from_arrow(arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("key", arrow::int64()),
                     arrow::field("number", arrow::float64()),
                     arrow::field("value", arrow::float64()), arrow::field("text", arrow::utf8())}),
      {check(ids.Finish(), "a test"), check(keys.Finish(), "a test"),
       check(numbers.Finish(), "a test"), check(values.Finish(), "a test"),
       check(texts.Finish(), "a test")}));
}

TEST(DealtRows, GroupsInPartsAreTheSameInTheSameOrder) {
  auto rows = rows_with_keys(20'000);
  for (const std::vector<std::string>& keys :
       std::vector<std::vector<std::string>>{{"key"}, {"number"}, {"text", "number"}, {"id"}}) {
    expect_same_in_parts(rows.groupby(keys).aggregate(
        {agg::count(), agg::sum("value"), agg::mean("value"), agg::min("text"), agg::max("id"),
         agg::std("value"), agg::quantile("value", 0.5), agg::unique("text")}));
    expect_same_in_parts(rows.groupby(keys).aggregate({agg::sum("value")}));
  }
}

TEST(DealtRows, JoinsInPartsAreTheSameInTheSameOrder) {
  auto left = rows_with_keys(6'000);
  auto right = rows_with_keys(3'000).filter(col("id") % 3 != 0).rename_columns({{"id", "other"}});
  for (JoinType type :
       {JoinType::kInner, JoinType::kLeft, JoinType::kRight, JoinType::kOuter, JoinType::kLeftSemi,
        JoinType::kLeftAnti, JoinType::kRightSemi, JoinType::kRightAnti}) {
    JoinOptions options{.type = type, .left_suffix = "_l", .right_suffix = "_r"};
    expect_same_in_parts(left.join(right, {"key"}, options));
    expect_same_in_parts(left.join(right, {"text", "number"}, options));
  }
}

// Rows of an operation may have the names of its input, or of lanes, for other types.
TEST(DealtRows, NamesOfColumnsMeanNothingInParts) {
  auto rows = rows_with_keys(5'000).select_columns({"text", "id"});
  auto text_c0 = rows.rename_columns({{"text", "c0"}, {"id", "c1"}});
  expect_same_in_parts(rows.groupby("text").aggregate({agg::mean("id").as("id")}));
  expect_same_in_parts(rows.groupby("id").aggregate({agg::count().as("text")}));
  expect_same_in_parts(text_c0.join(
      text_c0.rename_columns({{"c1", "other"}}).filter(col("other") % 50 == 0), {"c0"}));
}

TEST(DealtRows, NothingGivesNothingInParts) {
  auto none = rows_with_keys(100).filter(col("id") < 0);
  expect_same_in_parts(none.groupby("key").count());
  expect_same_in_parts(
      rows_with_keys(100).join(none, {"key"}, {.type = JoinType::kLeft, .right_suffix = "_r"}));
}

}  // namespace
}  // namespace manta::data
