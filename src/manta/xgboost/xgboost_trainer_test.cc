#include "manta/xgboost/xgboost_trainer.h"

#include <gmock/gmock.h>

#include "manta/base/error_of_internal.h"
#include "manta/predict/batch_predictor.h"
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

}  // namespace
}  // namespace manta
