// An operation that must see all rows before it gives the first one, in one file.

#include <arrow/api.h>
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <numeric>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/data/dataset.h"
#include "manta/data/feed_fixture_internal.h"
#include "manta/data/gather_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/stage_internal.h"

namespace manta::data {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

/// Sorts by a column of int64 without nulls; in parts of `part_rows`.
class ToySort final : public MaterialisingOperation {
 public:
  explicit ToySort(std::string column, int64_t part_rows = 16, bool lets_bounds_through = true)
      : column_(std::move(column)),
        part_rows_(part_rows),
        lets_bounds_through_(lets_bounds_through) {}

  std::string to_string() const override { return str("toy_sort(", column_, ")"); }
  Json to_json(PlanFunctions&) const override {
    return {{"op", "toy_sort"}, {"column", column_}, {"part_rows", part_rows_}};
  }
  SchemaPtr schema_after(const SchemaPtr& before) const override {
    require_columns({column_}, before->field_names(), *this);
    return before;
  }
  ColumnNames columns_needed(ColumnNames live) const override {
    if (live && !contains(*live, column_)) live->push_back(column_);
    return live;
  }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return lets_bounds_through_; }

  void run(const AllRows& given, RowSink& sink) const override {
    ++runs;
    Batches all;
    while (auto batch = given.next()) all.push_back(std::move(batch));
    if (all.empty()) return;
    auto rows = concatenate(all);
    auto keys = ints(*rows, column_);
    if (std::find(keys.begin(), keys.end(), -1) != keys.end()) {
      throw Error(ErrorKind::kInvalidArgument, str("in ", to_string(), ": -1 has no place"));
    }
    std::vector<uint32_t> order(keys.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return keys[a] < keys[b]; });
    for (size_t row = 0; row < order.size(); row += static_cast<size_t>(part_rows_)) {
      Piece piece = to_piece(*rows);
      gather_all(piece,
                 std::span(order).subspan(
                     row, std::min<size_t>(static_cast<size_t>(part_rows_), order.size() - row)),
                 [](const auto& column) { return column.null_count() > 0; });
      sink.add(to_batch(std::move(piece)));
      sink.end_fragment();
    }
  }

  static inline std::atomic<int> runs{0};

 private:
  const std::string column_;
  const int64_t part_rows_;
  const bool lets_bounds_through_;
};

/// Gives the rows unchanged, after a while: one at a time, or never.
class ToySlow final : public MaterialisingOperation {
 public:
  explicit ToySlow(std::chrono::milliseconds pause, bool hangs = false)
      : pause_(pause), hangs_(hangs) {}

  std::string to_string() const override { return "toy_slow()"; }
  Json to_json(PlanFunctions&) const override { return {{"op", "toy_slow"}}; }
  SchemaPtr schema_after(const SchemaPtr& before) const override { return before; }
  ColumnNames columns_needed(ColumnNames live) const override { return live; }
  std::optional<int64_t> rows_of_all(std::optional<int64_t> before) const override {
    return before;
  }
  bool add_bounds(FileBounds&) const override { return true; }

  void run(const AllRows& given, RowSink& sink) const override {
    Batches all;
    while (auto batch = given.next()) all.push_back(std::move(batch));
    while (hangs_ && !given.stopping()) std::this_thread::sleep_for(pause_);
    for (const auto& batch : all) {
      for (int64_t row = 0; row < batch->num_rows(); ++row) {
        std::this_thread::sleep_for(pause_);
        sink.add(batch->Slice(row, 1));
      }
    }
  }

 private:
  const std::chrono::milliseconds pause_;
  const bool hangs_;
};

std::shared_ptr<arrow::RecordBatch> add_a_thousand(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  arrow::Int64Builder builder;
  for (int64_t id : ints(*batch, "id")) check(builder.Append(id + 1000), "id");
  auto column = check(builder.Finish(), "id");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  column->length(), {column});
}
std::shared_ptr<arrow::RecordBatch> no_rows(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch->Slice(0, 0);
}

std::vector<int64_t> count_down(int64_t from, int64_t to) {
  std::vector<int64_t> all;
  for (int64_t i = from; i >= to; --i) all.push_back(i);
  return all;
}

class ToyMaterialisingTest : public testing::Test {
 protected:
  // The ids from 0 to 99 in two files, and a key by which they go from 99 to 0.
  void SetUp() override {
    folder_.write_rows("a.parquet", 40, 60, 7);
    folder_.write_rows("b.parquet", 0, 40, 9);
  }
  Dataset rows() { return read_parquet(folder_.path()).with_column("key", 500 - col("id")); }
  static Dataset sorted(const Dataset& dataset, int64_t part_rows = 16) {
    return then(dataset, std::make_shared<ToySort>("key", part_rows));
  }
  static std::vector<int64_t> ids(const Dataset& dataset) {
    return ints(*dataset.to_table(), "id");
  }
  static std::vector<int64_t> all_of(const Steps& steps) {
    std::vector<int64_t> all;
    for (const auto& step : steps) all.insert(all.end(), step.begin(), step.end());
    return all;
  }

  ParquetFolder folder_;
};

TEST_F(ToyMaterialisingTest, RunsAfterAFilterAndBeforeAFunction) {
  Dataset dataset = sorted(rows().filter(col("id") < 70)).map_batches(add_a_thousand);
  EXPECT_EQ(ids(dataset), count_down(1069, 1000));
  std::vector<int64_t> batches;
  for (auto& batch : dataset.iter_batches({.batch_size = 11})) {
    EXPECT_LE(batch->num_rows(), 11);
    for (int64_t id : ints(*batch, "id")) batches.push_back(id);
  }
  EXPECT_EQ(batches, count_down(1069, 1000));
  EXPECT_EQ(ints(*dataset.take(3), "id"), count_down(1069, 1067));
}

TEST_F(ToyMaterialisingTest, OperationsAfterItSeeItsRows) {
  Dataset all = sorted(rows());
  EXPECT_EQ(ids(all), count_down(99, 0));
  EXPECT_EQ(all.columns(), (std::vector<std::string>{"id", "half", "text", "key"}));
  EXPECT_EQ(ids(all.filter(col("id") < 5)), count_down(4, 0));
  EXPECT_EQ(ids(all.drop_columns({"key", "text"})), count_down(99, 0));
  EXPECT_EQ(all.drop_columns({"key", "text"}).columns(), (std::vector<std::string>{"id", "half"}));
  EXPECT_EQ(ids(all.drop_na()).size(), 86u);  // of 100, 14 have no half
  // Sorts twice, and after functions whose columns are unknown.
  auto upwards = count_down(99, 0);
  std::reverse(upwards.begin(), upwards.end());
  EXPECT_EQ(ids(then(all, std::make_shared<ToySort>("id"))), upwards);
  Dataset unknown = then(rows().map_batches(add_a_thousand), std::make_shared<ToySort>("id"));
  EXPECT_EQ(ids(unknown.filter(col("id") < 1002)), (std::vector<int64_t>{1000, 1001}));
  Dataset none = then(rows().map_batches(no_rows), std::make_shared<ToySort>("key"));
  EXPECT_EQ(none.filter(col("id") < 5).count(), 0);
  // Each stage may have a shuffle.
  Dataset shuffled = sorted(rows().window_shuffle({.rows = 20, .seed = 1}))
                         .window_shuffle({.rows = 32, .seed = 2});
  EXPECT_NE(ids(shuffled), count_down(99, 0));
  EXPECT_THAT(ids(shuffled), testing::UnorderedElementsAreArray(count_down(99, 0)));
  EXPECT_THAT(message_of([&] { shuffled.window_shuffle(); }), HasSubstr("a second window_shuffle"));
}

TEST_F(ToyMaterialisingTest, ThePlanKnowsWhatItCanKnow) {
  Dataset dataset = sorted(rows());
  int runs = ToySort::runs;
  EXPECT_EQ(dataset.count(), 100);
  EXPECT_EQ(dataset.plan()->estimated_rows(), 100);
  EXPECT_EQ(dataset.filter(col("id") < 5).plan()->estimated_rows(), 100);
  EXPECT_EQ(ToySort::runs, runs);
  EXPECT_EQ(dataset.filter(col("id") < 5).count(), 5);
  EXPECT_EQ(ToySort::runs, runs + 1);
  EXPECT_THAT(message_of([&] { then(rows(), std::make_shared<ToySort>("no")); }),
              AllOf(HasSubstr("toy_sort(no)"), HasSubstr("no column")));
  auto [first, last] = dataset.train_test_split(int64_t{10});
  EXPECT_EQ(ids(first), count_down(99, 10));
  EXPECT_EQ(ids(last), count_down(9, 0));
  auto [train, test] = rows().train_test_split(int64_t{10});
  EXPECT_EQ(ids(sorted(test)), count_down(39, 30));
  EXPECT_EQ(sorted(train).plan()->estimated_rows(), 90);
  EXPECT_THAT(message_of([&] { Dataset::from_json(dataset.to_json()); }),
              HasSubstr("operations[1].op"));
}

TEST_F(ToyMaterialisingTest, ColumnsArePrunedAndFiltersPassIfItSaysSo) {
  auto explain = [&](bool lets_through) {
    return then(rows(), std::make_shared<ToySort>("key", 16, lets_through))
        .filter(col("id") < 9)
        .select_columns({"key"})
        .explain();
  };
  EXPECT_THAT(explain(true),
              AllOf(HasSubstr("reads 1 of 3 columns: id"), HasSubstr("skips 13 of 14 fragments"),
                    HasSubstr("toy_sort(key), of all rows at once\nfilter(")));
  EXPECT_THAT(explain(false),
              AllOf(HasSubstr("reads 1 of 3 columns: id"), HasSubstr("skips 0 of 14 fragments")));
  for (bool lets_through : {true, false}) {
    Stream stream(then(rows(), std::make_shared<ToySort>("key", 16, lets_through))
                      .filter(col("id") < 9)
                      .plan(),
                  {}, {});
    int64_t given = 0;
    while (auto block = stream.next()) given += block->batch->num_rows();
    EXPECT_EQ(given, 9);
    EXPECT_EQ(stream.rows_decoded(), lets_through ? 9 : 100);
  }
}

TEST_F(ToyMaterialisingTest, APassOwnsItsRowsAndMakesThemOnce) {
  Dataset dataset = sorted(rows());
  int runs = ToySort::runs;
  {
    Stream stream(dataset.plan(), {}, {});
    EXPECT_EQ(ToySort::runs, runs + 1);
    while (stream.next()) {
    }
    EXPECT_EQ(ToySort::runs, runs + 1);
  }
  auto stopped = last_stage(dataset.plan(), 0, {}, [] { return true; });
  EXPECT_EQ(stopped, nullptr);
}

TEST_F(ToyMaterialisingTest, TwoWorkersTrainOnItAndGoOnInTheMiddle) {
  for (const Dataset& dataset :
       {sorted(rows()).map_batches(add_a_thousand),
        sorted(rows().filter(col("id") >= 3)).window_shuffle({.rows = 32, .seed = 2}),
        then(sorted(rows()), std::make_shared<ToySort>("id", 10))}) {
    SCOPED_TRACE(dataset.explain());
    Walk options;
    options.options.global_batch_size = 9;
    options.epochs = 2;
    int runs = ToySort::runs;
    Walked all = walk(dataset, 2, options);
    // Once, not for each worker or epoch; the last data set has two of them.
    auto times = static_cast<int>(std::count_if(
        dataset.plan()->operations.begin(), dataset.plan()->operations.end(),
        [](const auto& each) { return dynamic_cast<const ToySort*>(each.get()) != nullptr; }));
    EXPECT_EQ(ToySort::runs - runs, times);
    EXPECT_EQ(all.rows_decoded, 100);
    std::vector<int64_t> expected;
    for (int64_t epoch : {0, 1}) {
      for (auto& batch : dataset.iter_batches({.epoch = epoch})) {
        for (int64_t id : ints(*batch, "id")) expected.push_back(id);
      }
    }
    EXPECT_EQ(all_of(all.steps), expected);
    ASSERT_GT(all.positions.size(), 8u);
    for (size_t step : {0u, 4u, 8u}) {
      SCOPED_TRACE(step);
      Walk rest = options;
      rest.from = all.positions[step];
      EXPECT_EQ(walk(dataset, 2, rest).steps,
                Steps(all.steps.begin() + static_cast<int64_t>(step) + 1, all.steps.end()));
    }
  }
}

// The first row takes longer than workers wait for a message of the reader.
TEST_F(ToyMaterialisingTest, WorkersWaitForAsLongAsTheReaderIsAtWork) {
  using std::chrono::milliseconds;
  Walk options;
  options.options.batch_size = 20;
  options.patience = options.feed.timeout = milliseconds(2000);
  Dataset slow = then(rows(), std::make_shared<ToySlow>(milliseconds(40)));
  EXPECT_EQ(all_of(walk(slow, 2, options).steps).size(), 100u);
  // A slow function of the stream itself, all of whose batches are one window.
  Dataset one_window = read_parquet(folder_.write_rows("all.parquet", 0, 100, 100));
  auto pause = [](const std::shared_ptr<arrow::RecordBatch>& batch) {
    std::this_thread::sleep_for(milliseconds(40));
    return batch;
  };
  Dataset mapped = one_window.map_batches(+pause, {.batch_size = 1});
  EXPECT_EQ(all_of(walk(mapped, 2, options).steps).size(), 100u);
  // A function of groups, whose rows all come at the end.
  Dataset grouped = one_window.groupby("id").map_groups(pause);
  EXPECT_EQ(all_of(walk(grouped, 2, options).steps).size(), 100u);
}

TEST_F(ToyMaterialisingTest, WorkersDoNotWaitForAReaderThatHangs) {
  using std::chrono::milliseconds;
  Walk options;
  options.patience = options.feed.timeout = milliseconds(1000);
  Dataset hangs = then(rows(), std::make_shared<ToySlow>(milliseconds(5), /*hangs=*/true));
  EXPECT_THAT(message_of(ErrorKind::kTimeout, [&] { walk(hangs, 2, options); }),
              HasSubstr("had to wait 1000 ms for rows: the data reader hangs"));
}

TEST_F(ToyMaterialisingTest, WhatGoesWrongReachesTheWorkers) {
  Dataset dataset =
      then(rows().with_column("key", col("id") - 1), std::make_shared<ToySort>("key"));
  EXPECT_THAT(message_of(ErrorKind::kInvalidArgument, [&] { walk(dataset, 2, {}); }),
              HasSubstr("in toy_sort(key): -1 has no place"));
  Walk elsewhere;
  elsewhere.from = {0, 60, 50, 55};
  EXPECT_THAT(message_of(ErrorKind::kCorrupt, [&] { walk(sorted(rows()), 2, elsewhere); }),
              AllOf(HasSubstr("cannot go on at the position"), HasSubstr("no window 50")));
  // Damage is not the position's fault, wherever a run resumes.
  Dataset damaged = sorted(rows());
  damaged.count();
  folder_.write_rows("a.parquet", 0, 3, 3);
  elsewhere.from = {0, 20, 1, 16};
  EXPECT_THAT(error_of([&] { walk(damaged, 2, elsewhere); }).what(),
              AllOf(HasSubstr("a.parquet"), Not(HasSubstr("cannot go on at the position"))));
}

}  // namespace
}  // namespace manta::data
