// Tuning of a trainer without a framework: with its own space, and with a space of names.

#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/train/session.h"
#include "manta/tune/tuner.h"

namespace manta::tune {
namespace {

using testing::HasSubstr;

DataParallelTrainer product_trainer() {
  return DataParallelTrainer(
      {.train_loop_per_worker =
           [](const Json& config) {
             train::report({{"product", config.at("a").get<int>() * config.at("b").get<int>()},
                            {"ranks", train::get_context().world_size}});
           },
       .train_loop_config = {{"a", 2}, {"b", 3}},
       .scaling_config = {.resources_per_worker = {.cpus = 0.5}}});
}

RunConfig silent_run(const TemporaryFolder& storage) {
  return {.name = "e", .storage_path = storage.path(), .verbose = 0};
}

TEST(DataParallelSpaceTest, TheTrainerItself) {
  TemporaryFolder storage;
  Tuner tuner(product_trainer(), {.param_space = {.train_loop_config = {{"a", grid_search({4, 5})}},
                                                  .scaling_config = {.num_workers = 2}},
                                  .tune_config = {.metric = "product", .mode = "max"},
                                  .run_config = silent_run(storage)});
  Result best = tuner.fit().get_best_result();
  EXPECT_EQ(best.metrics.at("product"), 15);
  EXPECT_EQ(best.metrics.at("ranks"), 2);
}

TEST(DataParallelSpaceTest, AsTrainableWithNames) {
  TemporaryFolder storage;
  Tuner tuner(product_trainer().as_trainable(),
              {.param_space = {{"train_loop_config", {{"a", grid_search({4, 5})}}},
                               {"scaling_config", {{"num_workers", grid_search({1, 2})}}}},
               .tune_config = {.metric = "product", .mode = "max"},
               .run_config = silent_run(storage)});
  ResultGrid results = tuner.fit();
  EXPECT_EQ(results.size(), 4u);
  for (const Result& result : results) {
    ASSERT_FALSE(result.error) << result.error->what();
    EXPECT_EQ(result.metrics.at("product"),
              3 * result.config.at("train_loop_config").at("a").get<int>());
    EXPECT_EQ(result.metrics.at("ranks"), result.config.at("scaling_config").at("num_workers"));
  }
  // It goes on, without its space being given again.
  EXPECT_EQ(Tuner::restore(storage / "e", product_trainer().as_trainable()).fit().size(), 4u);
}

// A trainer whose own runs are in a store can be tuned in a folder.
TEST(DataParallelSpaceTest, TheTunersPlaceCountsBeforeTheTrainers) {
  DataParallelTrainer trainer({.train_loop_per_worker =
                                   [](const Json&) {
                                     train::report({{"product", 1}});
                                   },
                               .run_config = {.storage_path = "s3://bucket/runs"}});
  TemporaryFolder storage;
  EXPECT_EQ(Tuner(trainer, {.run_config = silent_run(storage)}).fit().size(), 1u);
}

TEST(DataParallelSpaceTest, AsTrainableRefusesWhatTheTrainerDoesNotHave) {
  auto refused = [](const Space& space) {
    return message_of([&] { Tuner(product_trainer().as_trainable(), {.param_space = space}); });
  };
  EXPECT_THAT(refused({{"params", {{"eta", 0.1}}}}),
              HasSubstr("'params.eta', which is no option of a DataParallelTrainer"));
  EXPECT_THAT(refused({{"scaling_config", {{"workers", 2}}}}),
              HasSubstr("'scaling_config.workers'"));
  EXPECT_THAT(refused({{"preprocessor", grid_search({1, 2})}}), HasSubstr("holds objects"));
}

}  // namespace
}  // namespace manta::tune
