// Rows that are made when they are read are those that would have been in a file, in the same
// fragments: a run that goes on elsewhere, with other memory, goes on at the same row.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/placed_rows_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/data/stage_internal.h"
#include "manta/data/wide_fixture_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kLongRows = 100'000;
constexpr int64_t kTooLittle = 64 << 20;  // rows take more than a quarter of it

// Rows of about 200 bytes, with keys that repeat.
Dataset long_rows() {
  arrow::Int64Builder keys;
  arrow::StringBuilder texts;
  arrow::DoubleBuilder numbers;
  for (int64_t row = 0; row < kLongRows; ++row) {
    check(keys.Append(row * 7919 % 1000), "rows");
    check(row % 11 == 0
              ? texts.AppendNull()
              : texts.Append(std::string(static_cast<size_t>(150 + row % 50), 'a' + row % 26)),
          "rows");
    check(row % 13 == 0 ? numbers.AppendNull() : numbers.Append(static_cast<double>(row)), "rows");
  }
  auto schema =
      arrow::schema({arrow::field("key", arrow::int64()), arrow::field("text", arrow::utf8()),
                     arrow::field("number", arrow::float64())});
  return from_arrow(
      arrow::Table::Make(schema, {check(keys.Finish(), "rows"), check(texts.Finish(), "rows"),
                                  check(numbers.Finish(), "rows")}));
}

std::shared_ptr<const StoredRows> result_of_stage(const Dataset& dataset) {
  return stored_rows(*last_stage(dataset.plan(), 0, {.threads = 2})->source);
}

bool is_deferred(const StoredRows& rows) {
  return dynamic_cast<const DeferredRows*>(&rows) != nullptr;
}

void expect_same_rows(const Dataset& deferred, const Dataset& in_file) {
  auto rows = result_of_stage(deferred), others = result_of_stage(in_file);
  EXPECT_TRUE(is_deferred(*rows));
  EXPECT_FALSE(is_deferred(*others));
  EXPECT_EQ(rows->fragments(), others->fragments());
  EXPECT_GT(rows->fragments().size(), 2u);
  EXPECT_TRUE(rows->schema()->Equals(*others->schema()));
  EXPECT_TRUE(deferred.to_table()->Equals(*in_file.to_table()));
  // Some columns, in another order.
  std::vector<std::string> columns = {"number", "key"};
  for (size_t i = 0; i < rows->fragments().size(); ++i) {
    auto some = rows->read(i, columns), expected = others->read(i, columns);
    ASSERT_EQ(some.size(), 1u);
    EXPECT_TRUE(some[0]->Equals(*expected[0]));
    EXPECT_EQ(rows->read(i, {})[0]->num_rows(), rows->fragments()[i]);
  }
}

TEST(PlacedRowsTest, ASortGivesWhatItWouldHaveWritten) {
  Dataset rows = long_rows();
  expect_same_rows(rows.sort("key"), rows.sort("key", {.memory_bytes = kTooLittle}));
  expect_same_rows(rows.random_shuffle({.seed = 3}),
                   rows.random_shuffle({.seed = 3, .memory_bytes = kTooLittle}));
}

TEST(PlacedRowsTest, AJoinGivesWhatItWouldHaveWritten) {
  Dataset rows = long_rows();
  Dataset others =
      data::range(1500).rename_columns({{"id", "key"}}).with_column("other", col("key") * 2);
  for (JoinType type :
       {JoinType::kInner, JoinType::kOuter, JoinType::kRight, JoinType::kLeftSemi}) {
    SCOPED_TRACE(static_cast<int>(type));
    expect_same_rows(rows.join(others, "key", {.type = type}),
                     rows.join(others, "key", {.type = type, .memory_bytes = kTooLittle}));
  }
}

TEST(PlacedRowsTest, RowsWhoseFragmentsDependOnTheirBytesAreWritten) {
  EXPECT_TRUE(is_deferred(*result_of_stage(data::range(1000).sort("id"))));
  auto numbers = array_from_json(arrow::int64(), Json{3, 1, 2});
  auto lists = array_from_json(arrow::list(arrow::int64()), Json{{1, 2}, Json::array(), {3}});
  Dataset nested = from_arrow(arrow::Table::Make(
      arrow::schema({arrow::field("id", numbers->type()), arrow::field("list", lists->type())}),
      {numbers, lists}));
  EXPECT_FALSE(is_deferred(*result_of_stage(nested.sort("id"))));
  // One long text is enough: 32,768 of these would have more than 32 MiB.
  std::vector<Json> items;
  for (int i = 0; i < 100; ++i) {
    items.push_back({{"id", 100 - i}, {"text", std::string(i == 50 ? 2000 : 3, 'x')}});
  }
  EXPECT_FALSE(is_deferred(*result_of_stage(from_items(items).sort("id"))));
}

// A join of few rows may give very many.
TEST(PlacedRowsTest, MorePlacesThanThereIsRoomForAreNotKept) {
  constexpr int64_t kEach = 1500;  // so 2.25 million rows, with 36 MB of places
  Dataset left = data::range(kEach).with_column("key", col("id") * 0);
  Dataset right = left.rename_columns({{"id", "other"}});
  Dataset all = left.join(right, "key", {.memory_bytes = kTooLittle});
  auto rows = result_of_stage(all);
  EXPECT_FALSE(is_deferred(*rows));
  EXPECT_EQ(rows->rows(), kEach * kEach);
  auto last = rows->read(rows->fragments().size() - 1, {"id", "other"}).back();
  auto value = [&](int column) {
    return static_cast<const arrow::Int64Array&>(*last->column(column)).Value(last->num_rows() - 1);
  };
  EXPECT_EQ(value(0), kEach - 1);
  EXPECT_EQ(value(1), kEach - 1);
  EXPECT_TRUE(is_deferred(*result_of_stage(left.join(right, "key"))));
}

}  // namespace
}  // namespace manta::data
