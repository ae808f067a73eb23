// A small data set is decoded once for all epochs of a run.

#include <arrow/record_batch.h>
#include <gmock/gmock.h>

#include <atomic>

#include "manta/data/decoded_rows_internal.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/pipeline_internal.h"
#include "manta/data/row_bytes_internal.h"

namespace manta::data {
namespace {

constexpr int64_t kSmallRows = 1000;

/// Leaves the rows as they are, and counts how many it was given.
class Counting final : public RowOperation {
 public:
  Counting(bool repeats, std::atomic<int64_t>& rows) : repeats_(repeats), rows_(rows) {}

  std::string to_string() const override { return "counting()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "counting"}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }
  bool repeats() const override { return repeats_; }
  void run(Piece& piece, RowMask&, const ColumnNames&) const override { rows_ += piece.rows; }

 private:
  const bool repeats_;
  std::atomic<int64_t>& rows_;
};

/// Makes rows so wide that only few are made at a time.
class Widening final : public RowOperation {
 public:
  std::string to_string() const override { return "widening()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "widening"}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    return check(before->AddField(before->num_fields(), arrow::field("wide", type_)), "a field");
  }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_after(size_t, std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }
  bool repeats() const override { return false; }
  void run(Piece& piece, RowMask&, const ColumnNames&) const override {
    piece.set("wide", check(arrow::MakeArrayOfNull(type_, piece.rows), "nulls"));
  }

 private:
  std::shared_ptr<arrow::DataType> type_ = arrow::fixed_size_list(arrow::float32(), 4000);
};

std::atomic<int64_t> rows_mapped = 0;

std::shared_ptr<arrow::RecordBatch> count_rows_mapped(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  rows_mapped += batch->num_rows();
  return batch;
}

class DecodedRowsTest : public testing::Test {
 protected:
  const Dataset& rows() const { return rows_; }
  static Walk epochs(int64_t count) {
    return {.options = {.global_batch_size = 64}, .epochs = count};
  }
  static Walk decoding_each_time(Walk walk) {
    walk.feed.keep_decoded = 0;
    return walk;
  }

  ParquetFolder folder_;

 private:
  const Dataset rows_ = read_parquet(folder_.write_rows("rows.parquet", 0, kSmallRows, 90));
};

TEST_F(DecodedRowsTest, LaterEpochsHaveTheSameRowsWithoutReading) {
  const std::pair<const char*, Dataset> plans[] = {
      {"as it is", rows()},
      {"rows removed", rows().drop_na().filter(col("id") % 3 != 1)},
      {"all rows removed of some row groups", rows().filter(col("half") > 300)},
      {"another order in each epoch", rows().window_shuffle({.rows = 200, .seed = 3})},
      {"operations on both sides of a shuffle", rows()
                                                    .filter(col("id") % 3 != 1)
                                                    .window_shuffle({.rows = 200, .seed = 3})
                                                    .with_column("more", col("id") + 1)},
      {"the first ones", rows().limit(301).filter(col("id") % 2 == 0)},
      {"random rows", rows().random_sample(0.4, {.seed = 5})},
  };
  for (const auto& [name, dataset] : plans) {
    SCOPED_TRACE(name);
    auto once = walk(dataset, 2, epochs(3));
    auto always = walk(dataset, 2, decoding_each_time(epochs(3)));
    EXPECT_EQ(once.steps, always.steps);
    EXPECT_EQ(once.positions, always.positions);
    EXPECT_EQ(once.rows_decoded, 0);
    EXPECT_GT(always.rows_decoded, 0);
  }
}

// A window of more than 128 MiB is shuffled in parts, which end with batches.
TEST_F(DecodedRowsTest, BatchesEndAtTheSameRows) {
  constexpr int64_t kRows = 5000;
  auto all = read_parquet(folder_.write_rows("large.parquet", 0, kRows, kRows));
  auto wide = then(all.filter(col("id") % 3 != 1), std::make_shared<Widening>());
  auto plan = wide.filter(col("id") % 5 != 0).plan();  // so wide rows are made here
  auto sizes = [&](std::shared_ptr<DecodedRows> decoded) {
    std::vector<int64_t> rows;
    std::atomic<int64_t> rows_decoded = 0;
    Pipeline pipeline(plan, nullptr, nullptr, std::move(decoded));
    pipeline.run({0}, 0, 0, rows_decoded, [&](auto batch) { rows.push_back(batch->num_rows()); });
    return rows;
  };
  auto without = sizes(nullptr);
  EXPECT_GT(without.size(), 1);
  auto decoded = std::make_shared<DecodedRows>(std::make_shared<ByteBudget>(1 << 20));
  EXPECT_EQ(sizes(decoded), without);
  ASSERT_NE(decoded->find(0), nullptr);
  EXPECT_EQ(sizes(decoded), without);
  EXPECT_EQ(sizes(std::make_shared<DecodedRows>(std::make_shared<ByteBudget>(1000))), without);
}

TEST_F(DecodedRowsTest, AnEpochThatEndsEarlyKeepsWhatItHasRead) {
  Dataset dataset = rows().window_shuffle({.rows = 200, .seed = 3});
  Walk stopped = epochs(3);
  stopped.max_steps = 20;  // in the second epoch
  auto first = walk(dataset, 2, stopped);
  EXPECT_EQ(first.steps, walk(dataset, 2, decoding_each_time(stopped)).steps);

  Walk rest = epochs(2);
  rest.from = first.positions.back();  // another run resumes in the middle of it
  auto once = walk(dataset, 2, rest);
  EXPECT_EQ(once.steps, walk(dataset, 2, decoding_each_time(rest)).steps);
  EXPECT_LT(once.rows_decoded, kSmallRows);
}

TEST_F(DecodedRowsTest, SeveralHostsGetTheSame) {
  Dataset dataset = rows().window_shuffle({.rows = 200, .seed = 3});
  for (bool always_split : {true, false}) {
    Walk walked = epochs(3);
    walked.hosts = 3;
    walked.always_split = always_split;
    EXPECT_EQ(walk(dataset, 4, walked).steps,
              walk(dataset, 4, decoding_each_time(epochs(3))).steps);
  }
}

TEST_F(DecodedRowsTest, CodeOfTheUsersRunsInEachEpoch) {
  rows_mapped = 0;
  walk(rows().map_batches(count_rows_mapped), 1, epochs(3));
  EXPECT_EQ(rows_mapped, 3 * kSmallRows);

  for (bool repeats : {true, false}) {
    std::atomic<int64_t> before = 0, counted = 0;
    Dataset dataset = then(then(rows(), std::make_shared<Counting>(true, before)),
                           std::make_shared<Counting>(repeats, counted));
    EXPECT_EQ(walk(dataset, 1, epochs(3)).rows_decoded, 0);
    EXPECT_EQ(before, kSmallRows);
    EXPECT_EQ(counted, repeats ? kSmallRows : 3 * kSmallRows);
  }
}

TEST_F(DecodedRowsTest, ALargeDataSetIsReadInEachEpoch) {
  Walk walked = epochs(2);
  walked.feed.keep_decoded = 20'000;  // one column of three
  EXPECT_EQ(walk(rows(), 1, walked).rows_decoded, kSmallRows);
  EXPECT_EQ(walk(rows().select_columns({"id"}), 1, walked).rows_decoded, 0);
}

TEST_F(DecodedRowsTest, TextsThatAreLongerThanExpectedAreNotKept) {
  auto text = std::string(1000, 'x');
  Dataset dataset = from_items({{{"id", 1}, {"text", text}}, {{"id", 2}, {"text", text}}});
  dataset.write_parquet(folder_.file("texts"));
  Walk walked{.options = {.batch_size = 1}, .epochs = 2};
  walked.feed.keep_decoded = 1500;
  auto read = read_parquet(folder_.file("texts"));
  EXPECT_EQ(walk(read, 1, walked).rows_decoded, 2);
  walked.feed.keep_decoded = 4000;
  EXPECT_EQ(walk(read, 1, walked).rows_decoded, 0);
}

TEST_F(DecodedRowsTest, RowsCountAgainstTheBudgetWhileTheyAreDecoded) {
  auto batch = check(rows().to_table()->CombineChunksToBatch(), "a batch");
  int64_t all = 5 * bytes_of_batch(*batch) / 2;
  auto budget = std::make_shared<ByteBudget>(all);
  DecodedRows decoded(budget);
  FragmentToKeep one(&decoded, 0), other(&decoded, 1);
  one.add(batch);
  other.add(batch);
  EXPECT_LT(budget->left(), bytes_of_batch(*batch) / 2);
  EXPECT_TRUE(one.keeps());
  EXPECT_EQ(one.add(batch), batch);
  EXPECT_FALSE(one.keeps());
  EXPECT_FALSE(decoded.keeps());
  other.end();
  EXPECT_EQ(decoded.find(1), nullptr);
  EXPECT_EQ(budget->left(), all);
}

TEST_F(DecodedRowsTest, TwoPassesKeepAFragmentOnce) {
  auto batch = check(rows().to_table()->CombineChunksToBatch(), "a batch");
  auto budget = std::make_shared<ByteBudget>(5 * bytes_of_batch(*batch) / 2);
  DecodedRows decoded(budget);
  FragmentToKeep first(&decoded, 0), second(&decoded, 0);
  first.add(batch);
  second.add(batch);
  first.end();
  int64_t of_both = budget->left();
  EXPECT_EQ(second.add(batch), batch);
  EXPECT_GT(budget->left(), of_both);
  second.end();
  EXPECT_TRUE(decoded.keeps());
  EXPECT_EQ(decoded.find(0)->size(), 1);
}

// It is unknown which of a user's functions write to their rows in place.
TEST_F(DecodedRowsTest, WhatIsKeptCannotBeWrittenTo) {
  auto table = check(arrow::AllocateResizableBuffer(800), "memory");
  auto column =
      arrow::MakeArray(arrow::ArrayData::Make(arrow::int64(), 100, {nullptr, std::move(table)}));
  auto batch =
      arrow::RecordBatch::Make(arrow::schema({arrow::field("x", arrow::int64())}), 100, {column});
  ASSERT_TRUE(batch->column_data(0)->buffers[1]->is_mutable());
  DecodedRows decoded(std::make_shared<ByteBudget>(10'000));
  FragmentToKeep fragment(&decoded, 0);
  auto kept = fragment.add(batch);
  EXPECT_FALSE(kept->column_data(0)->buffers[1]->is_mutable());
  EXPECT_TRUE(kept->Equals(*batch));
}

TEST_F(DecodedRowsTest, DataSetsShareTheBudget) {
  auto batch = check(rows().to_table()->CombineChunksToBatch(), "a batch");
  auto keep = [&](DecodedRows& in, size_t fragment) {
    FragmentToKeep to_keep(&in, fragment);
    to_keep.add(batch);
    to_keep.end();
  };
  int64_t all = 7 * bytes_of_batch(*batch) / 2;
  auto budget = std::make_shared<ByteBudget>(all);
  auto first = std::make_unique<DecodedRows>(budget);
  DecodedRows second(budget);
  keep(*first, 0);
  EXPECT_NE(first->find(0), nullptr);
  EXPECT_EQ(first->find(1), nullptr);
  int64_t left = budget->left();
  EXPECT_LT(left, all);

  keep(second, 0);
  keep(second, 1);
  EXPECT_TRUE(second.keeps());
  keep(second, 2);
  EXPECT_FALSE(second.keeps());
  EXPECT_EQ(second.find(0), nullptr);
  EXPECT_EQ(budget->left(), left);
  EXPECT_TRUE(first->keeps());
  first.reset();
  EXPECT_EQ(budget->left(), all);
}

}  // namespace
}  // namespace manta::data
