// Functions of map_batches in a real run: the driver, a worker and the data reader are processes.

#include <arrow/api.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "manta/core/function.h"
#include "manta/data/dataset.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/shard.h"
#include "manta/train/session.h"
#include "manta/train/training_internal.h"

namespace manta {
namespace {

using Batch = std::shared_ptr<arrow::RecordBatch>;

Batch with_ids(const Batch& batch, const std::function<int64_t(int64_t)>& change) {
  arrow::Int64Builder ids;
  for (int64_t id : data::ints(*batch, "id")) check(ids.Append(change(id)), "id");
  auto column = check(ids.Finish(), "ids");
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                  column->length(), {column});
}
Batch add(const Batch& batch, const int64_t& amount) {
  return with_ids(batch, [&](int64_t id) { return id + amount; });
}
Batch look_up(const Batch& batch, const std::vector<int64_t>& table) {
  return with_ids(batch, [&](int64_t id) { return table.at(static_cast<size_t>(id)); });
}

void loop() {
  int64_t sum = 0;
  for (auto& batch : train::get_dataset_shard("train").iter_batches({.batch_size = 7})) {
    for (int64_t id : data::ints(*batch, "id")) sum += id;
  }
  train::report({{"sum", sum}});
}

TEST(PlanInTraining, ArgumentsReachTheDataReader) {
  data::ParquetFolder folder;
  std::vector<int64_t> table(100'000);  // large enough for shared memory
  std::iota(table.begin(), table.end(), 5);
  auto dataset = data::read_parquet(folder.write_rows("a.parquet", 0, 100, 10))
                     .map_batches(add, 1000)
                     .map_batches(look_up, table, {.batch_size = 3});
  int64_t expected = 0;
  for (int64_t id : data::ints(*dataset.to_table(), "id")) expected += id;
  EXPECT_EQ(expected, 99 * 100 / 2 + 100 * 1005);

  train::Training training;
  training.trainer = "a test";
  training.loop = detail::make_function(&loop);
  training.loop_takes_config = false;
  training.run = {.name = "run", .storage_path = folder.file("runs"), .verbose = false};
  training.datasets.emplace("train", dataset);
  EXPECT_EQ(train::run_training(training).metrics.at("sum"), expected);
}

// Kills its process in the first call with the rows from 40 on.
Batch add_or_die(const Batch& batch, const std::string& mark) {
  if (data::ints(*batch, "id")[0] == 40 && !std::filesystem::exists(mark)) {
    std::ofstream(mark) << ::getpid();
    ::raise(SIGKILL);
  }
  return with_ids(batch, [](int64_t id) { return id + 1; });
}

// The reader starts the processes of the function, and gets the same rows if one is killed.
TEST(PlanInTraining, FunctionsInProcessesOfTheDataReader) {
  data::ParquetFolder folder;
  auto dataset = data::read_parquet(folder.write_rows("a.parquet", 0, 100, 10))
                     .map_batches(add_or_die, folder.file("mark"), {.concurrency = 2});
  train::Training training;
  training.trainer = "a test";
  training.loop = detail::make_function(&loop);
  training.loop_takes_config = false;
  training.run = {.name = "run", .storage_path = folder.file("runs"), .verbose = false};
  training.datasets.emplace("train", dataset);
  EXPECT_EQ(train::run_training(training).metrics.at("sum"), 100 * 101 / 2);
  EXPECT_TRUE(std::filesystem::exists(folder.file("mark")));
}

}  // namespace
}  // namespace manta
