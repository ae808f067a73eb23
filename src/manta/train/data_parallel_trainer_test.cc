// A loop on several workers without a framework, and what all trainers have.

#include "manta/train/data_parallel_trainer.h"

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/session.h"

namespace manta::train {
namespace {

using testing::HasSubstr;
namespace fs = std::filesystem;

Dataset hundred_rows() {
  std::vector<Json> items;
  for (int i = 0; i < 100; ++i) items.push_back({{"x", i}});
  return data::from_items(items);
}

// Reports how many rows it had; the only rank keeps that in a checkpoint.
void count_rows(const Json& config) {
  auto context = get_context();
  int64_t rows = 0;
  double sum = 0;
  for (const auto& batch : get_dataset_shard("train").iter_batches({.batch_size = 10})) {
    rows += batch->num_rows();
    const auto& column = *batch->GetColumnByName("x");
    for (int64_t i = 0; i < column.length(); ++i)
      sum += std::stod(column.GetScalar(i).ValueOrDie()->ToString());
  }
  Json metrics = {{"rows", rows}, {"ranks", context.world_size}, {"lr", config.value("lr", 0.0)}};
  if (context.world_size > 1) return train::report(metrics);
  metrics["sum"] = sum;
  train::report(metrics, Checkpoint::from_dict({.values = {{"rows", rows}}}));
}

// Three checkpoints; the first attempt loses rank 1 after the first.
void lose_a_worker(const Json&) {
  auto context = get_context();
  Checkpoint from = get_checkpoint();
  std::string files = context.run_folder + "/mine-" + std::to_string(context.world_rank);
  fs::create_directories(files);
  for (int n = from ? from.metrics().at("n").get<int>() + 1 : 0; n < 3; ++n) {
    std::ofstream(files + "/state-" + std::to_string(context.world_rank)) << n;
    train::report({{"n", n}, {"attempt", context.attempt}}, files);
    if (n == 1 && context.attempt == 0 && context.world_rank == 1) ::raise(SIGKILL);
  }
}

DataParallelTrainerOptions counting(const TemporaryFolder& storage) {
  return {.train_loop_per_worker = count_rows,
          .train_loop_config = {{"lr", 0.5}},
          .scaling_config = {.num_workers = 2},
          .run_config = {.name = "run", .storage_path = storage.path(), .verbose = 0},
          .datasets = {{"train", hundred_rows()}}};
}

TEST(DataParallelTrainerTest, RunsALoopOnAllWorkers) {
  TemporaryFolder storage;
  DataParallelTrainer trainer(counting(storage));
  EXPECT_TRUE(trainer.get_checkpoints().empty());
  Result result = trainer.fit();
  EXPECT_EQ(result.metrics.at("rows"), 50);
  EXPECT_EQ(result.metrics.at("ranks"), 2);
  EXPECT_EQ(result.metrics.at("lr"), 0.5);
  EXPECT_EQ(result.rows.at("train"), 100);
}

TEST(DataParallelTrainerTest, NeedsALoop) {
  EXPECT_THAT(message_of([] { DataParallelTrainer(DataParallelTrainerOptions{}); }),
              HasSubstr("DataParallelTrainer needs a train_loop_per_worker"));
}

TEST(DataParallelTrainerTest, GoesOnAfterALostWorkerAndIsRestored) {
  TemporaryFolder storage;
  DataParallelTrainerOptions options = counting(storage);
  options.train_loop_per_worker = lose_a_worker;
  options.datasets = {};
  options.run_config.checkpoint_config.max_in_flight = 1;  // each waits for the one before
  DataParallelTrainer trainer(options);
  EXPECT_THAT(message_of([&] { trainer.fit(); }), HasSubstr("rank 1 failed"));
  auto checkpoints = trainer.get_checkpoints();  // of a run that failed
  ASSERT_FALSE(checkpoints.empty());
  EXPECT_EQ(checkpoints.front().metrics().at("n"), 0);
  EXPECT_TRUE(DataParallelTrainer(trainer).get_checkpoints().empty());  // a copy has not run

  auto restored =
      DataParallelTrainer::restore(storage / "run", {.train_loop_per_worker = lose_a_worker});
  EXPECT_EQ(restored.get_checkpoints().size(), checkpoints.size());
  Result result = restored.fit();
  EXPECT_EQ(result.metrics.at("n"), 2);
  EXPECT_EQ(result.metrics_history.size(), 3u);
  EXPECT_EQ(restored.get_checkpoints().size(), 3u);

  options.run_config.name = "again";
  options.run_config.failure_config.max_failures = 1;
  EXPECT_EQ(DataParallelTrainer(options).fit().metrics.at("attempt"), 1);
}

TEST(DataParallelTrainerTest, FitTakesADataSetAndAPreprocessor) {
  TemporaryFolder storage;
  DataParallelTrainerOptions options = counting(storage);
  options.datasets = {};
  options.scaling_config.num_workers = 1;
  DataParallelTrainer trainer(options);
  Result result = trainer.fit(hundred_rows(), StandardScaler({"x"}));
  EXPECT_EQ(result.metrics.at("rows"), 100);
  EXPECT_NEAR(result.metrics.at("sum"), 0, 1e-9);  // it was scaled
  ASSERT_TRUE(result.checkpoint.get_preprocessor());
  EXPECT_EQ(result.checkpoint.get_preprocessor()->name(), "StandardScaler");
  // The trainer itself still has no data.
  options.run_config.name = "other";
  EXPECT_THAT(message_of([&] { DataParallelTrainer(options).fit(); }),
              HasSubstr("given no data set 'train'"));
}

}  // namespace
}  // namespace manta::train
