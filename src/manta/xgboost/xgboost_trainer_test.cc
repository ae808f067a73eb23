#include "manta/xgboost/xgboost_trainer.h"

#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/predict/batch_predictor.h"
#include "manta/preprocess/scalers.h"
#include "manta/tune/tuner.h"
#include "manta/xgboost/xgboost_fixture_internal.h"
#include "manta/xgboost/xgboost_predictor.h"

namespace manta {
namespace {

using testing::HasSubstr;

class XGBoostTrainerTest : public testing::Test {
 protected:
  XGBoostRuns runs_;
};

// These need the values, not only their bins. (`approx` on several workers is in expected_test.cc.)
TEST_F(XGBoostTrainerTest, OtherMethodsThanHistLearnToo) {
  struct Case {
    Json params;
    int workers;
  };
  for (const Case& c : {Case{{{"tree_method", "exact"}}, 1}, Case{{{"booster", "gblinear"}}, 2},
                        Case{{{"booster", "dart"}, {"tree_method", "approx"}}, 2}}) {
    auto options = runs_.options(c.workers, {{"train", breast_cancer()}});
    options.params = {{"objective", "binary:logistic"}, {"eval_metric", "error"}};
    options.params.update(c.params);
    Result result = XGBoostTrainer(options).fit();
    EXPECT_LT(result.metrics.at("train-error"), 0.2) << c.params;  // 0.37 are of one class
  }
}

TEST_F(XGBoostTrainerTest, TrainsOnTwoWorkersAndPredicts) {
  auto [train, valid] = breast_cancer().train_test_split(0.2, {.shuffle = true, .seed = 1});
  auto options = runs_.options(2, {{"train", train}, {"valid", valid}});
  options.num_boost_round = 20;
  Result result = XGBoostTrainer(options).fit();
  EXPECT_EQ(result.metrics_history.size(), 20u);
  for (const char* name : {"train-logloss", "train-error", "valid-logloss", "valid-error"}) {
    EXPECT_TRUE(result.metrics.contains(name)) << result.metrics;
  }
  EXPECT_LT(result.metrics.at("train-logloss"), 0.05);
  EXPECT_LT(result.metrics.at("valid-error"), 0.15);
  EXPECT_EQ(result.rows, (std::map<std::string, int64_t>{{"train", 455}, {"valid", 114}}));
  EXPECT_THAT(result.checkpoint.files(), testing::ElementsAre("model.ubj"));

  auto predicted = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint)
                       .predict(valid.drop_columns({"target"}));
  EXPECT_EQ(floats(*predicted.to_table(), "predictions").size(), 114u);
}

TEST_F(XGBoostTrainerTest, FitTakesADataSetAndAPreprocessor) {
  auto options = runs_.options(2, {});
  XGBoostTrainer trainer(options);
  Error error = error_of([&] { trainer.fit(); });
  EXPECT_THAT(error.what(), HasSubstr("needs a data set 'train' among `datasets`, or in fit"));
  Dataset wrong = breast_cancer().drop_columns({"target"});
  EXPECT_THAT(error_of([&] { trainer.fit(wrong); }).what(), HasSubstr("the label column 'target'"));
  Result result = trainer.fit(breast_cancer(), StandardScaler({"mean radius"}));
  EXPECT_EQ(result.rows.at("train"), 569);
  EXPECT_EQ(result.checkpoint.get_preprocessor()->name(), "StandardScaler");
  EXPECT_EQ(trainer.get_checkpoints().size(), 1u);
}

TEST_F(XGBoostTrainerTest, TrainsInTheDriver) {
  Result there = XGBoostTrainer(runs_.options(1, {{"train", breast_cancer()}})).fit();
  Result here = XGBoostTrainer(runs_.options(0, {{"train", breast_cancer()}})).fit();
  EXPECT_EQ(here.metrics_history.size(), there.metrics_history.size());
  EXPECT_NEAR(here.metrics.at("train-logloss"), there.metrics.at("train-logloss"), 1e-6);
}

TEST_F(XGBoostTrainerTest, AsTrainableIsTuned) {
  auto options = runs_.options(1, {{"train", breast_cancer()}});
  Tuner tuner(XGBoostTrainer(options).as_trainable(),
              {.param_space = {{"params", {{"max_depth", tune::grid_search({1, 4})}}},
                               {"num_boost_round", 3}},
               .tune_config = {.metric = "train-logloss", .mode = "min"},
               .run_config = {.verbose = 0}});
  Result best = tuner.fit().get_best_result();
  EXPECT_EQ(best.config.at("params").at("max_depth"), 4);
  EXPECT_EQ(best.metrics_history.size(), 3u);
}

}  // namespace
}  // namespace manta
