// XGBoostTrainer under a Tuner, as in users' programs.

#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/preprocess/scalers.h"
#include "manta/tune/tuner.h"
#include "manta/xgboost/xgboost_fixture_internal.h"
#include "manta/xgboost/xgboost_predictor.h"

namespace manta {
namespace {

using testing::HasSubstr;

class TuneXGBoostTest : public testing::Test {
 protected:
  XGBoostTrainer trainer(int workers, int rounds) {
    auto [train, valid] = breast_cancer().train_test_split(0.2, {.shuffle = true, .seed = 1});
    auto options = runs_.options(workers, {{"train", train}, {"valid", valid}});
    options.num_boost_round = rounds;
    return XGBoostTrainer(options);
  }

  XGBoostRuns runs_;
};

TEST_F(TuneXGBoostTest, FindsTheBestDepth) {
  Tuner tuner(
      trainer(2, 5),
      {.param_space = {.params = {{"max_depth", tune::randint(1, 9)}}},
       .tune_config = {.metric = "train-logloss", .mode = "min", .num_samples = 2, .seed = 3},
       .run_config = {.name = "tune", .verbose = false}});
  ResultGrid result_grid = tuner.fit();
  ASSERT_EQ(result_grid.num_errors(), 0u) << result_grid.errors().front().what();
  Result best_result = result_grid.get_best_result();
  double least = 1;
  for (const Result& result : result_grid) {
    EXPECT_EQ(result.metrics_history.size(), 5u);
    EXPECT_EQ(result.rows.at("train"), 455);
    least = std::min(least, result.metrics.at("train-logloss").get<double>());
  }
  EXPECT_EQ(best_result.metrics.at("train-logloss"), least);
  EXPECT_NO_THROW(XGBoostPredictor::from_checkpoint(best_result.checkpoint));
  // The parameters that the trainer had are still there.
  Json params = best_result.config.at("params");
  EXPECT_TRUE(params.contains("max_depth"));
  EXPECT_TRUE(best_result.metrics.contains("valid-error"));
}

TEST_F(TuneXGBoostTest, OptionsAndObjectsAreSearchedThroughTheirFields) {
  StandardScaler prep_v1({"mean radius"});
  MinMaxScaler prep_v2({"mean radius"});
  Tuner tuner(trainer(1, 9),
              {.param_space = {.scaling_config = {.num_workers = tune::grid_search({1, 2}),
                                                  .resources_per_worker = Resources{.cpus = 0.5}},
                               .preprocessor = tune::grid_search(prep_v1, prep_v2),
                               .params = {{"objective", "binary:logistic"},
                                          {"tree_method", "hist"},
                                          {"eval_metric", {"logloss", "error"}},
                                          {"eta", tune::loguniform(1e-4, 1e-1)},
                                          {"subsample", tune::uniform(0.5, 1.0)},
                                          {"max_depth", tune::randint(1, 9)}},
                               .num_boost_round = 2},
               .run_config = {.name = "tune", .verbose = false}});
  ResultGrid results = tuner.fit();
  ASSERT_EQ(results.size(), 4u);
  ASSERT_EQ(results.num_errors(), 0u) << results.errors().front().what();
  for (const Result& result : results) {
    EXPECT_EQ(result.metrics_history.size(), 2u);
    EXPECT_EQ(result.checkpoint.get_preprocessor()->to_string(), result.config.at("preprocessor"));
  }
}

TEST_F(TuneXGBoostTest, WhatTheLibraryRefusesIsAnErrorOfTheTrial) {
  Tuner tuner(trainer(1, 2),
              {.param_space = {.params = {{"max_depth", tune::grid_search({3, -5})}}},
               .tune_config = {.metric = "train-logloss", .mode = "min"},
               .run_config = {.name = "tune", .verbose = false}});
  ResultGrid results = tuner.fit();
  EXPECT_FALSE(results[0].error);
  ASSERT_TRUE(results[1].error);
  EXPECT_THAT(results[1].error->what(), HasSubstr("max_depth"));
  EXPECT_EQ(results.get_best_result().config.at("params").at("max_depth"), 3);
}

}  // namespace
}  // namespace manta
