// Row groups much larger than what a stream may hold.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <atomic>

#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/recycling_pool_internal.h"
#include "manta/data/row.h"
#include "manta/data/sources.h"
#include "manta/data/stream_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kNumbers = 3'000'000;  // rows of 24 bytes, in one row group
constexpr int64_t kBudget = 4 << 20;

std::atomic<int64_t> rows_seen = 0;

BatchPtr look_at(const BatchPtr& batch) {
  rows_seen += batch->num_rows();
  return batch;
}
Row look_at_row(const Row& row) {
  ++rows_seen;
  return row;
}
bool look_and_keep(const Row&) {
  ++rows_seen;
  return true;
}

class LargeRowGroupTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::make_unique<ParquetFolder>();
    arrow::Int64Builder builder;
    for (int64_t i = 0; i < kNumbers; ++i) check(builder.Append(i), "a column");
    auto column = check(builder.Finish(), "a column");
    arrow::FieldVector fields;
    for (const char* name : {"id", "a", "b"}) fields.push_back(arrow::field(name, column->type()));
    auto table = arrow::Table::Make(arrow::schema(fields), {column, column, column});
    folder_->write("numbers.parquet", *table, kNumbers);
  }
  static void TearDownTestSuite() { folder_ = nullptr; }

  static Dataset numbers() { return read_parquet(folder_->file("numbers.parquet")); }

  // Walks through all rows, with little memory; there are never many rows that were made and not
  // taken.
  static void expect_stream(const Dataset& dataset, int64_t rows_at_a_time) {
    rows_seen = 0;
    Stream stream(dataset.plan(), {}, {.threads = 2, .byte_budget = kBudget});
    int64_t given = 0, most_ahead = 0, most_bytes = 0;
    while (auto block = stream.next()) {
      auto& ids = static_cast<const arrow::Int64Array&>(*block->batch->GetColumnByName("id"));
      ASSERT_EQ(ids.Value(0), given);
      given += block->batch->num_rows();
      most_ahead = std::max(most_ahead, rows_seen - given);
      most_bytes = std::max(most_bytes, arrow::default_memory_pool()->bytes_allocated() +
                                            RecyclingPool::instance().bytes_allocated());
    }
    EXPECT_GE(given, kNumbers - 1);
    EXPECT_LE(most_ahead, kBudget / 24 + rows_at_a_time);
    EXPECT_LE(most_bytes, kNumbers * 24 * 3 / 4);
  }

 private:
  inline static std::unique_ptr<ParquetFolder> folder_;
};

TEST_F(LargeRowGroupTest, FunctionsSeeWhatIsDecodedSoFar) {
  constexpr int64_t kPieces = 8 * 32 * 1024;
  expect_stream(numbers().map_batches(look_at, {.batch_size = 1000}), kPieces);
  expect_stream(numbers().map_batches(look_at, {.batch_size = 100'000}), kPieces + 100'000);
  expect_stream(numbers().filter(look_and_keep), kPieces);
  auto [train, test] = numbers().train_test_split(int64_t{1});
  expect_stream(train.map_batches(look_at), kPieces);
  expect_stream(numbers().random_sample(1).limit(kNumbers).map_batches(look_at), kPieces);
}

TEST_F(LargeRowGroupTest, RowsOfAFunctionAreGivenAsTheyAreMade) {
  rows_seen = 0;
  Stream stream(numbers().map(look_at_row).plan(), {}, {.threads = 1, .byte_budget = kBudget});
  ASSERT_TRUE(stream.next());
  EXPECT_LT(rows_seen, kNumbers / 2);
}

// Rows of 60,000 bytes, of which a window may hold some 2,200.
TEST(LargeWindowTest, ComesInPartsThatAreShuffledByThemselves) {
  constexpr int64_t kRowsInGroup = 5000, kBytes = 60'000;
  ParquetFolder folder;
  arrow::Int64Builder ids;
  arrow::BinaryBuilder texts;
  std::string text(kBytes, 'x');
  for (int64_t i = 0; i < kRowsInGroup; ++i) {
    check(ids.Append(i), "a column");
    check(texts.Append(text), "a column");
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("id", arrow::int64()), arrow::field("text", arrow::binary())}),
      {check(ids.Finish(), "a column"), check(texts.Finish(), "a column")});
  Dataset rows = read_parquet(folder.write("a.parquet", *table, kRowsInGroup));
  auto order_of = [](const Dataset& dataset, int64_t* most_bytes) {
    std::vector<int64_t> order;
    Stream stream(dataset.plan(), {}, {.threads = 1, .byte_budget = kBudget});
    while (auto block = stream.next()) {
      auto& some = static_cast<const arrow::Int64Array&>(*block->batch->GetColumnByName("id"));
      for (int64_t i = 0; i < some.length(); ++i) order.push_back(some.Value(i));
      *most_bytes = std::max(*most_bytes, arrow::default_memory_pool()->bytes_allocated() +
                                              RecyclingPool::instance().bytes_allocated());
    }
    return order;
  };
  int64_t before = arrow::default_memory_pool()->bytes_allocated();
  table = nullptr;
  int64_t most_bytes = 0, ignored = 0;
  auto order = order_of(rows.window_shuffle({.rows = 100, .seed = 7}), &most_bytes);
  EXPECT_EQ(order, order_of(rows.window_shuffle({.rows = 100, .seed = 7}), &ignored));
  EXPECT_NE(order, order_of(rows.window_shuffle({.rows = 100, .seed = 8}), &ignored));
  ASSERT_EQ(std::ssize(order), kRowsInGroup);
  // The first part is of the first rows, in another order.
  EXPECT_LT(*std::max_element(order.begin(), order.begin() + 1000), 3000);
  EXPECT_FALSE(std::is_sorted(order.begin(), order.begin() + 1000));
  std::sort(order.begin(), order.end());
  for (int64_t i = 0; i < kRowsInGroup; ++i) ASSERT_EQ(order[static_cast<size_t>(i)], i);
  // It must not hold 300 MB of decoded rows and as many of shuffled rows. Some of the memory
  // belongs to other tests.
  EXPECT_LE(most_bytes - std::min(before, most_bytes), 450'000'000);
  // A part has at least as many rows as are asked for.
  auto whole = order_of(rows.window_shuffle({.rows = kRowsInGroup, .seed = 7}), &ignored);
  EXPECT_GT(*std::max_element(whole.begin(), whole.begin() + 1000), 3000);
}

}  // namespace
}  // namespace manta::data
