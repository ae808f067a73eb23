#include "manta/predict/batch_predictor.h"

#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <numeric>

#include "manta/base/error_of_internal.h"
#include "manta/data/operation_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/plan_internal.h"
#include "manta/data/sources.h"
#include "manta/predict/predict_fixture_internal.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta {
namespace {

using testing::HasSubstr;
using testing::Not;

LinePredictor make_line(const Checkpoint& checkpoint) {
  return LinePredictor::from_checkpoint(checkpoint);
}
std::unique_ptr<Predictor> make_any(const Checkpoint& checkpoint) {
  return std::make_unique<LinePredictor>(LinePredictor::from_checkpoint(checkpoint));
}
std::unique_ptr<LinePredictor> make_none(const Checkpoint&) { return nullptr; }
LinePredictor make_badly(const Checkpoint&) { throw std::out_of_range("no such weight"); }

const auto named_line = named("named_line", make_line);

class BatchPredictorTest : public testing::Test {
 protected:
  // Rows 0 to `rows`: x = id, y = 2 * id, so that predictions with the factor 3 are 5 * id.
  Dataset rows(int64_t rows, int64_t row_group_rows = 1000) {
    std::vector<int64_t> ids(static_cast<size_t>(rows));
    std::iota(ids.begin(), ids.end(), 0);
    arrow::Int64Builder builder;
    check(builder.AppendValues(ids), "ids");
    auto table = arrow::Table::Make(arrow::schema({arrow::field("id", arrow::int64())}),
                                    {check(builder.Finish(), "ids")});
    return data::read_parquet(folder_.write("rows.parquet", *table, row_group_rows))
        .with_column("x", col("id") * 1.0)
        .with_column("y", col("id") * 2.0)
        .with_column("unused", col("id") + 1);
  }

  void expect_predictions(const Dataset& predicted, int64_t rows) {
    auto all = preprocess::all_of(predicted);
    ASSERT_EQ(all->num_rows(), rows);
    auto predictions = preprocess::doubles(*all, "predictions");
    for (int64_t i = 0; i < rows; ++i) {
      ASSERT_EQ(predictions[static_cast<size_t>(i)], 5.0 * static_cast<double>(i));
    }
  }

  data::ParquetFolder folder_;
  CheckpointMaker checkpoints_;
  Checkpoint checkpoint_ = checkpoints_.make({{"line", "3"}});
};

TEST_F(BatchPredictorTest, PredictsInOrderWithTheModelLoadedOnce) {
  int before = LinePredictor::loaded;
  auto predictor = BatchPredictor::from_checkpoint<LinePredictor>(checkpoint_);
  Dataset predicted = predictor.predict(rows(100'000), {.keep_columns = {"id"}, .batch_size = 333});
  EXPECT_EQ(predicted.schema()->ToString(), "id: int64\npredictions: double");
  EXPECT_EQ(predicted.count(), 100'000);
  expect_predictions(predicted, 100'000);
  EXPECT_EQ(predicted.filter(col("predictions") < 50).take(100)->num_rows(), 10);
  EXPECT_EQ(LinePredictor::loaded, before + 1);
  EXPECT_THAT(predicted.explain(), HasSubstr("predict(manta::LinePredictor"));
  EXPECT_THAT(predictor.input_columns(), testing::ElementsAre("x", "y"));
}

TEST_F(BatchPredictorTest, ReadsOnlyTheColumnsThatItNeeds) {
  auto batch = preprocess::batch_of(
      {{"x", arrow::float64(), {1}}, {"y", arrow::float64(), {2}}, {"z", arrow::float64(), {3}}});
  Dataset dataset = preprocess::dataset_of(folder_, *batch, 1);
  auto predicted = BatchPredictor::from_checkpoint<LinePredictor>(checkpoint_).predict(dataset);
  EXPECT_THAT(data::columns_used(*predicted.plan()).read, testing::ElementsAre("x", "y"));
}

TEST_F(BatchPredictorTest, AFunctionMakesThePredictor) {
  for (const auto& make :
       {PredictorFactory(make_line), PredictorFactory(make_any), PredictorFactory(named_line),
        PredictorFactory([](const Checkpoint& from) { return make_line(from); })}) {
    auto predictor = BatchPredictor::from_checkpoint(checkpoint_, make);
    expect_predictions(predictor.predict(rows(10)), 10);
  }
  EXPECT_EQ(PredictorFactory(make_line), PredictorFactory(named_line));
  EXPECT_THAT(PredictorFactory(make_any).to_string(), HasSubstr("make_any"));
  EXPECT_THAT(message_of([&] { PredictorFactory(make_badly).make(checkpoint_); }),
              testing::AllOf(HasSubstr("make_badly"), HasSubstr("std::out_of_range"),
                             HasSubstr("no such weight"), HasSubstr(checkpoint_.path())));
  EXPECT_THAT(message_of([&] { PredictorFactory(make_none).make(checkpoint_); }),
              HasSubstr("returned no predictor"));
  EXPECT_THAT(message_of([&] { PredictorFactory(make_line).make({}); }),
              HasSubstr("was given no checkpoint"));
  EXPECT_THAT(message_of([&] { PredictorFactory().make(checkpoint_); }),
              HasSubstr("no predictor was named"));
}

TEST_F(BatchPredictorTest, IsStoredByName) {
  Dataset dataset = rows(10);
  for (const auto& make : {PredictorFactory::of<LinePredictor>(), PredictorFactory(named_line)}) {
    auto predicted = BatchPredictor::from_checkpoint(checkpoint_, make).predict(dataset);
    expect_predictions(Dataset::from_json(Json::parse(predicted.to_json().dump())), 10);
  }
  auto unnamed = BatchPredictor::from_checkpoint(checkpoint_, make_any).predict(dataset);
  EXPECT_THAT(message_of([&] { unnamed.to_json(); }),
              testing::AllOf(HasSubstr("make_any"), HasSubstr("manta::named")));
  Json unknown =
      BatchPredictor::from_checkpoint(checkpoint_, named_line).predict(dataset).to_json();
  unknown["operations"].back()["predictor"] = "other";
  EXPECT_THAT(message_of([&] { Dataset::from_json(unknown); }),
              testing::AllOf(HasSubstr("no predictor \"other\""), HasSubstr("'named_line'")));
}

void sum_of_predictions(const Json&) {
  double sum = 0;
  for (const auto& batch : train::get_dataset_shard().iter_batches({.batch_size = 8})) {
    for (double one : preprocess::doubles(*batch, "predictions")) sum += one;
  }
  train::report({{"sum", sum}});
}

// The data reader, another process, makes the predictor from its function's address.
TEST_F(BatchPredictorTest, IsDataOfATrainingRun) {
  auto training = train::test_training(folder_.path(), sum_of_predictions);
  training.datasets.emplace(
      "train", BatchPredictor::from_checkpoint(checkpoint_, make_any).predict(rows(100)));
  EXPECT_EQ(train::run_training(training).metrics.at("sum"), 5.0 * 99 * 100 / 2);
}

TEST_F(BatchPredictorTest, MistakesAreFoundWhenThePlanIsBuilt) {
  auto predictor = BatchPredictor::from_checkpoint<LinePredictor>(checkpoint_);
  Dataset dataset = rows(10);
  Error error = error_of([&] { predictor.predict(dataset.drop_columns({"x", "y"})); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("the columns x, y are missing"));
  EXPECT_THAT(message_of([&] { predictor.predict(dataset, {.keep_columns = {"none"}}); }),
              HasSubstr("'none'"));
  EXPECT_THAT(message_of([&] {
                predictor.predict(dataset.with_column("predictions", col("x")),
                                  {.keep_columns = {"predictions"}});
              }),
              HasSubstr("is a column of the predictions"));
  EXPECT_THAT(message_of([&] { predictor.predict(dataset, {.batch_size = 0}); }),
              HasSubstr("batch_size of at least 1"));
  std::ofstream(checkpoint_.file("line")) << "4";
  EXPECT_THAT(message_of([&] { BatchPredictor::from_checkpoint<LinePredictor>(checkpoint_); }),
              HasSubstr("'line' has the checksum"));
}

TEST_F(BatchPredictorTest, IsAskedAgainInEachEpoch) {
  auto predictor = BatchPredictor::from_checkpoint<LinePredictor>(checkpoint_);
  Dataset predicted = predictor.predict(rows(10));
  const auto& last = *predicted.plan()->operations.back();
  EXPECT_FALSE(dynamic_cast<const data::RowOperation&>(last).repeats());
}

}  // namespace
}  // namespace manta
