#include "manta/xgboost/xgboost_predictor.h"

#include <gmock/gmock.h>

#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/predict/batch_predictor.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/scalers.h"
#include "manta/xgboost/xgboost_fixture_internal.h"

namespace manta {
namespace {

using preprocess::batch_of;
using testing::ElementsAre;
using testing::HasSubstr;

std::vector<float> predictions_of(const XGBoostPredictor& predictor, const data::BatchPtr& rows) {
  auto column = predictor.predict(rows)->GetColumnByName("predictions");
  const auto& floats = static_cast<const arrow::FloatArray&>(*column);
  return {floats.raw_values(), floats.raw_values() + floats.length()};
}

class XGBoostPredictorTest : public testing::Test {
 protected:
  XGBoostPredictor train_on(const Dataset& dataset, const AnyPreprocessor& preprocessor = {}) {
    auto options = runs_.options(1, {{"train", dataset}});
    options.preprocessor = preprocessor;
    return XGBoostPredictor::from_checkpoint(XGBoostTrainer(options).fit().checkpoint);
  }

  XGBoostRuns runs_;
};

TEST_F(XGBoostPredictorTest, VectorsAreSeveralFeatures) {
  auto vectors = arrow::fixed_size_list(arrow::float64(), 2);
  auto rows = batch_of({{"a", arrow::float64(), {1, 2, 3, 4, 5, 6}},
                        {"v", vectors, {{0, 1}, {1, 0}, {0, 5}, {1, nullptr}, {0, 7}, {1, 2}}},
                        {"target", arrow::int8(), {0, 1, 0, 1, 0, 1}}});
  auto flat = batch_of({{"a", arrow::float64(), {1, 2, 3, 4, 5, 6}},
                        {"v_0", arrow::int8(), {0, 1, 0, 1, 0, 1}},
                        {"v_1", arrow::float32(), {1, 0, 5, nullptr, 7, 2}},
                        {"target", arrow::int8(), {0, 1, 0, 1, 0, 1}}});
  auto predictor = train_on(data::from_arrow(std::vector{rows}));
  EXPECT_THAT(predictor.feature_columns(), ElementsAre("a", "v"));
  EXPECT_THAT(predictor.input_columns(), ElementsAre("a", "v"));
  auto expected = predictions_of(train_on(data::from_arrow(std::vector{flat})), flat);
  EXPECT_EQ(predictions_of(predictor, rows), expected);
  EXPECT_EQ(predictions_of(predictor, rows->Slice(3, 2)),
            std::vector<float>(expected.begin() + 3, expected.begin() + 5));

  auto longer = arrow::fixed_size_list(arrow::float64(), 3);
  auto others = batch_of({{"a", arrow::float64(), {1}}, {"v", longer, {{0, 1, 2}}}});
  EXPECT_THAT(message_of([&] { predictor.predict(others); }), HasSubstr("vectors of 2"));
  auto clash = batch_of({{"v_1", arrow::int8(), {1, 0}},
                         {"v", vectors, {{0, 1}, {1, 0}}},
                         {"target", arrow::int8(), {0, 1}}});
  EXPECT_THAT(message_of([&] { train_on(data::from_arrow(std::vector{clash})); }),
              HasSubstr("'v_1'"));
}

TEST_F(XGBoostPredictorTest, FindsFeaturesByNameInAnyOrderAndType) {
  auto rows =
      batch_of({{"a", arrow::float64(), {1, 2, 3, 4, 5, 6, nullptr, 8}},
                {"target", arrow::boolean(), {false, false, true, true, false, true, false, true}},
                {"b", arrow::int32(), {1, 1, 0, 0, 1, 0, 1, 0}}});
  auto predictor = train_on(data::from_arrow(std::vector{rows}));
  EXPECT_THAT(predictor.feature_columns(), ElementsAre("a", "b"));
  EXPECT_THAT(predictor.input_columns(), ElementsAre("a", "b"));
  EXPECT_EQ(predictor.label_column(), "target");
  auto expected = predictions_of(predictor, rows);
  ASSERT_EQ(expected.size(), 8u);
  EXPECT_LT(expected[0], 0.5);
  EXPECT_GT(expected[2], 0.5);

  // The columns come in another order, with more columns, other types for the same numbers, and NaN
  // for null.
  auto others =
      batch_of({{"b", arrow::boolean(), {true, true, false, false, true, false, true, false}},
                {"text", arrow::utf8(), {"", "", "", "", "", "", "", ""}},
                {"a", arrow::float32(), {1, 2, 3, 4, 5, 6, nullptr, 8}}});
  EXPECT_EQ(predictions_of(predictor, others), expected);
  for (const auto& type : {arrow::int8(), arrow::int64(), arrow::uint8(), arrow::uint16(),
                           arrow::uint32(), arrow::uint64(), arrow::int16()}) {
    auto typed = batch_of(
        {{"a", type, {1, 2, 3, 4, 5, 6, nullptr, 8}}, {"b", type, {1, 1, 0, 0, 1, 0, 1, 0}}});
    EXPECT_EQ(predictions_of(predictor, typed), expected) << type->ToString();
  }
  EXPECT_EQ(predictions_of(predictor, rows->Slice(5, 2)),
            std::vector<float>(expected.begin() + 5, expected.begin() + 7));
  auto none = predictor.predict(rows->Slice(8));
  EXPECT_EQ(none->schema()->ToString(), "predictions: float");
  EXPECT_EQ(none->num_rows(), 0);

  EXPECT_THAT(message_of([&] {
                predictor.predict(batch_of({{"c", arrow::int8(), {1}}}));
              }),
              HasSubstr("the columns a, b are missing"));
  Error error = error_of([&] {
    predictor.predict(batch_of({{"a", arrow::utf8(), {"x"}}, {"b", arrow::int8(), {1}}}));
  });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("the column 'a'"));
}

TEST_F(XGBoostPredictorTest, AppliesThePreprocessorOfTraining) {
  Dataset dataset = breast_cancer();
  Chain chain(StandardScaler({"mean radius", "mean texture"}), MinMaxScaler({"mean area"}));
  auto predictor = train_on(dataset, chain);
  auto rows = preprocess::all_of(dataset);
  auto predictions = predictions_of(predictor, rows);
  chain.fit(dataset);
  auto plain = train_on(chain.transform(dataset));
  EXPECT_EQ(predictions, predictions_of(plain, chain.transform_batch(rows)));
}

TEST_F(XGBoostPredictorTest, ListsForSeveralClasses) {
  auto rows = batch_of({{"x", arrow::float64(), {1, 2, 3, 4, 5, 6}},
                        {"target", arrow::int64(), {0, 0, 1, 1, 2, 2}}});
  auto options = runs_.options(1, {{"train", data::from_arrow(std::vector{rows})}});
  options.params = {{"objective", "multi:softprob"}, {"num_class", 3}, {"min_child_weight", 0}};
  auto checkpoint = XGBoostTrainer(options).fit().checkpoint;
  auto predictor = XGBoostPredictor::from_checkpoint(checkpoint);
  auto type = arrow::fixed_size_list(arrow::float32(), 3);
  for (const auto& some : {rows, rows->Slice(6)}) {
    auto column = predictor.predict(some)->GetColumnByName("predictions");
    EXPECT_TRUE(column->type()->Equals(*type)) << column->type()->ToString();
    EXPECT_EQ(column->length(), some->num_rows());
  }
  auto column = predictor.predict(rows)->GetColumnByName("predictions");
  const auto& lists = static_cast<const arrow::FixedSizeListArray&>(*column);
  const auto& numbers = static_cast<const arrow::FloatArray&>(*lists.values());
  for (int64_t row = 0; row < 6; ++row) EXPECT_GT(numbers.Value(row * 3 + row / 2), 0.5) << row;
  auto predicted = BatchPredictor::from_checkpoint<XGBoostPredictor>(checkpoint)
                       .predict(data::from_arrow(std::vector{rows}));
  EXPECT_TRUE(predicted.schema()->field(0)->type()->Equals(*type));
}

TEST_F(XGBoostPredictorTest, ThreadsPredictAtTheSameTime) {
  Dataset dataset = breast_cancer();
  auto predictor = train_on(dataset);
  auto rows = preprocess::all_of(dataset);
  auto expected = predictions_of(predictor, rows);
  std::vector<std::thread> threads;
  std::vector<int> wrong(4);
  for (int& count : wrong) {
    threads.emplace_back([&] {
      for (int64_t row = 0; row < rows->num_rows(); ++row) {
        auto one = predictions_of(predictor, rows->Slice(row, 1));
        count += one.at(0) != expected[static_cast<size_t>(row)];
      }
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_THAT(wrong, ElementsAre(0, 0, 0, 0));
  auto predicted = predictor.predict(rows);
  auto batched = BatchPredictor::from_checkpoint<XGBoostPredictor>(
                     XGBoostTrainer(runs_.options(2, {{"train", dataset}})).fit().checkpoint)
                     .predict(dataset, {.batch_size = 100});
  EXPECT_EQ(floats(*batched.to_table(), "predictions"), expected) << "two workers, in batches";
}

}  // namespace
}  // namespace manta
