// Data of many shapes through the feed: row groups, batches and steps of very different sizes.

#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/data/feed_fixture_internal.h"

namespace manta::data {
namespace {

// Far more than an epoch takes; less than the minute that a send may wait.
constexpr std::chrono::seconds kShapeDeadline{50};

struct Shape {
  const char* name;
  int64_t rows;
  int64_t row_group;
  int64_t batch;
  Dataset (*make)(const Dataset&) = [](const Dataset& dataset) { return dataset; };
  int pause_us = 0;  // after each batch, as if the worker computed: the reader gets far ahead
};
void PrintTo(const Shape& shape, std::ostream* out) { *out << shape.name; }

Dataset as_read(const Dataset& dataset) { return dataset; }

std::shared_ptr<arrow::RecordBatch> as_it_is(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}

const Shape kShapes[] = {
    {"groups_of_20_batch_8", 40'000, 20, 8},
    {"groups_of_20_slow_worker", 40'000, 20, 16, as_read, 200},
    {"groups_of_100_batch_8", 100'000, 100, 8},
    {"groups_of_200_batch_32", 200'000, 200, 32, as_read, 100},
    {"groups_of_1000_batch_32", 200'000, 1'000, 32},
    {"one_group_batch_32", 262'144, 262'144, 32},
    {"map_batches_batch_32", 400'000, 262'144, 32,
     [](const Dataset& dataset) { return dataset.map_batches(as_it_is); }},
    {"map_batches_of_32_batch_8", 60'000, 30'000, 8,
     [](const Dataset& dataset) { return dataset.map_batches(as_it_is, {.batch_size = 32}); }},
    {"filtered_to_few", 100'000, 100, 8,
     [](const Dataset& dataset) { return dataset.filter(col("text") == "t3"); }},
    {"shuffled_groups_of_100", 50'000, 100, 32,
     [](const Dataset& dataset) { return dataset.window_shuffle({.rows = 1'000, .seed = 3}); }},
    {"batches_of_many_groups", 50'000, 100, 4'096},
};

class FeedShapes : public testing::TestWithParam<std::tuple<Shape, int>> {};

// Expects the values that ParquetFolder::write_rows wrote in the row with this id.
void expect_right_values(const arrow::RecordBatch& batch) {
  auto& half = static_cast<const arrow::DoubleArray&>(*batch.GetColumnByName("half"));
  auto& text = static_cast<const arrow::StringArray&>(*batch.GetColumnByName("text"));
  auto ids = ints(batch, "id");
  for (size_t i = 0; i < ids.size(); ++i) {
    auto at = static_cast<int64_t>(i), id = ids[i];
    ASSERT_EQ(half.IsNull(at), id % 7 == 3);
    ASSERT_EQ(half.IsNull(at) ? 0 : half.Value(at), id % 7 == 3 ? 0 : static_cast<double>(id) / 2);
    ASSERT_EQ(text.GetView(at).size(), 2);
    ASSERT_EQ(text.GetView(at)[1] - '0', id % 10);
  }
}

TEST_P(FeedShapes, AnEpochEndsAndHasEveryRowInItsPlace) {
  const auto& [shape, world] = GetParam();
  ParquetFolder folder;
  Dataset dataset =
      shape.make(read_parquet(folder.write_rows("shape.parquet", 0, shape.rows, shape.row_group)));
  Walk options{.options = {.batch_size = shape.batch}};
  options.look = [pause = std::chrono::microseconds(shape.pause_us)](const auto& batch) {
    expect_right_values(batch);
    if (pause.count() > 0) std::this_thread::sleep_for(pause);
  };
  auto walked =
      std::async(std::launch::async, [&, world = world] { return walk(dataset, world, options); });
  EXPECT_EQ(walked.wait_for(kShapeDeadline), std::future_status::ready) << "the feed hangs";
  auto [steps, positions, decoded] = walked.get();
  std::vector<int64_t> ids;
  for (const auto& step : steps) ids.insert(ids.end(), step.begin(), step.end());
  EXPECT_EQ(ids, ints(*dataset.to_table(), "id"));
  EXPECT_EQ(decoded, shape.rows);
  // Even if blocks were put together, a position is still that of the row group.
  Position middle = positions[steps.size() / 2];
  auto rest = walk(dataset, world, {.options = options.options, .from = middle}).steps;
  EXPECT_EQ(rest,
            Steps(steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2) + 1, steps.end()));
}

INSTANTIATE_TEST_SUITE_P(Shapes, FeedShapes,
                         testing::Combine(testing::ValuesIn(kShapes), testing::Values(1, 2)),
                         [](const auto& info) {
                           return std::string(std::get<0>(info.param).name) + "_workers_" +
                                  std::to_string(std::get<1>(info.param));
                         });

// Many columns, and strings of very different lengths.
TEST(FeedShapesTest, WideRowsArriveAsTheyAre) {
  constexpr int64_t kRows = 3'000;
  arrow::FieldVector fields{arrow::field("id", arrow::int64())};
  arrow::Int64Builder ids;
  for (int64_t i = 0; i < kRows; ++i) check(ids.Append(i), "id");
  arrow::ArrayVector columns{check(ids.Finish(), "id")};
  for (int column = 0; column < 60; ++column) {
    arrow::StringBuilder text;
    arrow::FloatBuilder number;
    for (int64_t i = 0; i < kRows; ++i) {
      auto length = static_cast<size_t>(i % 97 == 0 ? 3'000 : i % 5);
      check(i % 11 == 4 ? text.AppendNull()
                        : text.Append(std::string(length, static_cast<char>('a' + column % 26))),
            "text");
      check(number.Append(static_cast<float>(i * column)), "number");
    }
    bool is_text = column % 6 == 0;
    fields.push_back(arrow::field(str("c", column), is_text ? arrow::utf8() : arrow::float32()));
    columns.push_back(is_text ? check(text.Finish(), "text") : check(number.Finish(), "number"));
  }
  auto all = arrow::RecordBatch::Make(arrow::schema(fields), kRows, columns);
  ParquetFolder folder;
  auto table = check(arrow::Table::FromRecordBatches({all}), "table");
  Dataset dataset = read_parquet(folder.write("wide.parquet", *table, 100));
  for (int world : {1, 2}) {
    Walk options{.options = {.batch_size = 8}};
    options.look = [&](const arrow::RecordBatch& batch) {
      auto expected = all->Slice(ints(batch, "id").front(), batch.num_rows());
      EXPECT_TRUE(batch.Equals(*expected));
    };
    auto walked = walk(dataset, world, options);
    std::vector<int64_t> seen;
    for (const auto& step : walked.steps) seen.insert(seen.end(), step.begin(), step.end());
    EXPECT_EQ(seen, ints(*all, "id"));
  }
}

}  // namespace
}  // namespace manta::data
