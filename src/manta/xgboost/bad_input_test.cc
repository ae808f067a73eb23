#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/predict/predict_fixture_internal.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/scalers.h"
#include "manta/xgboost/booster_internal.h"
#include "manta/xgboost/ubjson_internal.h"
#include "manta/xgboost/xgboost_fixture_internal.h"
#include "manta/xgboost/xgboost_predictor.h"

namespace manta {
namespace {

using preprocess::batch_of;
using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

Dataset rows_of(const std::vector<preprocess::TestColumn>& columns) {
  return data::from_arrow(std::vector{batch_of(columns)});
}

data::BatchPtr with_another_column(const data::BatchPtr& batch) {
  return check(batch->AddColumn(0, "another", batch->column(0)), "another column");
}
data::BatchPtr as_it_is(const data::BatchPtr& batch) { return batch; }

class XGBoostBadInput : public testing::Test {
 protected:
  // The error for these options, from the constructor or from the run.
  Error error_of_making(const XGBoostTrainerOptions& options) {
    return error_of([&] { XGBoostTrainer{options}; });
  }
  Error error_of_fit(const XGBoostTrainerOptions& options) {
    XGBoostTrainer trainer(options);
    return error_of([&] { trainer.fit(); });
  }

  XGBoostRuns runs_;
  const Dataset few_ = rows_of({{"x", arrow::float64(), {1, 2, 3, 4}},
                                {"y", arrow::int64(), {4, 3, 2, 1}},
                                {"target", arrow::int64(), {0, 1, 0, 1}}});
};

TEST_F(XGBoostBadInput, WhatIsMissingIsNamed) {
  auto options = runs_.options(1, {{"train", few_}});
  options.label_column = "diagnosis";
  Error error = error_of_making(options);
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("the label column 'diagnosis' is not in data set 'train', "
                                      "which has 'x', 'y', 'target'"));
  options.label_column = "";
  EXPECT_THAT(error_of_making(options).what(), HasSubstr("needs a label_column"));
  options = runs_.options(1, {{"valid", few_}});
  EXPECT_THAT(error_of_fit(options).what(), HasSubstr("needs a data set 'train'"));
  options = runs_.options(1, {{"train", few_.select_columns({"target"})}});
  EXPECT_THAT(error_of_making(options).what(), HasSubstr("no column but the label"));
  options = runs_.options(1, {{"train", few_}});
  options.num_boost_round = 0;
  EXPECT_THAT(error_of_making(options).what(), HasSubstr("num_boost_round must be at least 1"));
}

TEST_F(XGBoostBadInput, ParametersAreCheckedByTheLibraryBeforeAnythingStarts) {
  struct {
    Json params;
    const char* message;
  } cases[] = {
      {{{"max_dept", 3}}, "Parameters: { \"max_dept\" } are not used"},
      {{{"booster", "gblinear"}, {"max_depth", 3}}, "Parameters: { \"max_depth\" } are not used"},
      {{{"eta", "abc"}}, "Invalid Parameter format for learning_rate expect float"},
      {{{"eta", -1}}, "value -1 for Parameter learning_rate should be greater equal to 0"},
      {{{"objective", "binary:logic"}}, "Unknown objective function: `binary:logic`"},
      {{{"eval_metric", {"logloss", "accuracy"}}}, "Unknown metric function accuracy"},
      {{{"tree_method", "fast"}}, "valid values are: {'approx', 'auto', 'exact', 'hist'}"},
      {{{"objective", "multi:softprob"}}, "num_class"},
      {{{"eta", nullptr}},
       "params: 'eta' must be a text, a number, a boolean or a list (was null)"},
  };
  for (const auto& one : cases) {
    auto options = runs_.options(1, {{"train", few_}});
    options.params = one.params;
    Error error = error_of_making(options);
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << one.params;
    EXPECT_THAT(error.what(), AllOf(HasSubstr(one.message), Not(HasSubstr("Stack trace")),
                                    Not(HasSubstr("/workspace"))))
        << one.params;
  }
  auto options = runs_.options(1, {{"train", few_}});
  options.params = {{"max_dept", 3}, {"validate_parameters", false}};
  EXPECT_NO_THROW(XGBoostTrainer{options});
  options.params = "eta=3";
  EXPECT_THAT(error_of_making(options).what(), HasSubstr("params must be an object"));
}

TEST_F(XGBoostBadInput, ALabelThatDoesNotFitTheObjective) {
  Dataset three =
      rows_of({{"x", arrow::float64(), {1, 2, 3, 4}}, {"target", arrow::int64(), {0, 1, 2, 1}}});
  for (int workers : {1, 2}) {
    Error error = error_of_fit(runs_.options(workers, {{"train", three}}));
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("label must be in (0, 1) for logistic regression"));
  }
  Dataset none =
      rows_of({{"x", arrow::float64(), {1, 2, 3}}, {"target", arrow::float64(), {0, 1, nullptr}}});
  EXPECT_THAT(error_of_fit(runs_.options(1, {{"train", none}})).what(),
              HasSubstr("the label column 'target' of data set 'train' is null or NaN in row 2"));
}

TEST_F(XGBoostBadInput, ColumnsThatDifferBetweenDataSets) {
  auto differ = [&](const Dataset& valid) {
    return error_of_making(runs_.options(1, {{"train", few_}, {"valid", valid}}));
  };
  Error error = differ(few_.drop_columns({"x"}).with_column("z", col("y")));
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(),
              HasSubstr("the data sets 'train' and 'valid' must have the same columns: data set "
                        "'valid' lacks 'x', and has 'z', which 'train' has not"));
  EXPECT_THAT(differ(few_.drop_columns({"target"})).what(), HasSubstr("lacks 'target'"));
  // Only the rows themselves show it: the workers find the error.
  auto options = runs_.options(
      2, {{"train", few_.map_batches(as_it_is)}, {"valid", few_.map_batches(with_another_column)}});
  EXPECT_THAT(error_of_fit(options).what(),
              HasSubstr("data set 'valid' has 'another', which 'train' has not"));
  // The order does not matter.
  options =
      runs_.options(1, {{"train", few_}, {"valid", few_.select_columns({"target", "y", "x"})}});
  Result result = XGBoostTrainer(options).fit();
  EXPECT_EQ(result.metrics.at("train-logloss"), result.metrics.at("valid-logloss"));
}

TEST_F(XGBoostBadInput, ColumnsWithoutNumbers) {
  struct {
    std::shared_ptr<arrow::DataType> type;
    Json values;
    const char* message;
  } cases[] = {
      {arrow::utf8(), {"a", "b"}, "the column 'x' of data set 'train' is of type string"},
      {arrow::timestamp(arrow::TimeUnit::SECOND), {1, 2}, "is of type timestamp[s]"},
      {arrow::list(arrow::float64()), {{1}, {2}}, "make it a number"},
  };
  for (const auto& one : cases) {
    Dataset dataset = rows_of({{"x", one.type, one.values}, {"target", arrow::int64(), {0, 1}}});
    EXPECT_THAT(error_of_making(runs_.options(1, {{"train", dataset}})).what(),
                HasSubstr(one.message));
  }
  Dataset infinite =
      rows_of({{"x", arrow::float64(), {1, 1e300}}, {"target", arrow::int64(), {0, 1}}});
  EXPECT_THAT(error_of_fit(runs_.options(1, {{"train", infinite}})).what(),
              HasSubstr("the column 'x' of data set 'train' has 1e+300 in row 1"));
}

TEST_F(XGBoostBadInput, FewerRowsThanWorkers) {
  EXPECT_THAT(error_of_fit(runs_.options(5, {{"train", few_}})).what(),
              HasSubstr("gives 4 rows, which is not one for each of 5 workers"));
  EXPECT_THAT(
      error_of_fit(runs_.options(2, {{"train", few_}, {"valid", few_.filter(col("x") < 2)}}))
          .what(),
      HasSubstr("data set 'valid' gives 1 rows, which is not one for each of 2 workers"));
  EXPECT_EQ(XGBoostTrainer(runs_.options(4, {{"train", few_}})).fit().rows.at("train"), 4);
}

TEST_F(XGBoostBadInput, AModelThatIsDamaged) {
  Result result = XGBoostTrainer(runs_.options(1, {{"train", few_}})).fit();
  std::ifstream file(result.checkpoint.file("model.ubj"), std::ios::binary);
  std::string model{std::istreambuf_iterator<char>(file), {}};
  CheckpointMaker checkpoints;
  EXPECT_EQ(xgboost::ubjson_damage(model), "");
  for (size_t size = 0; size < model.size(); ++size) {
    EXPECT_NE(xgboost::ubjson_damage(model.substr(0, size)), "") << size;
  }
  EXPECT_NE(xgboost::ubjson_damage(std::string(10'000, '[')), "");
  EXPECT_THAT(
      xgboost::ubjson_damage("{L" + std::string("\0\0\0\0\0\0\0\1a", 9) + std::string(10'000, '[')),
      HasSubstr("too deeply"));
  for (const std::string& bytes : {model.substr(0, model.size() / 2), model.substr(0, 1),
                                   std::string(), std::string("this is no model")}) {
    Checkpoint damaged = checkpoints.make({{"model.ubj", bytes}});
    Error error = error_of([&] { XGBoostPredictor::from_checkpoint(damaged); });
    EXPECT_EQ(error.kind(), ErrorKind::kCorrupt) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("'" + damaged.path() + "/model.ubj' is not a model of"));
  }
  EXPECT_THAT(message_of([&] {
                XGBoostPredictor::from_checkpoint(checkpoints.make({{"a", "b"}}));
              }),
              HasSubstr("has no file 'model.ubj'"));
  auto options = runs_.options(1, {{"train", few_}});
  options.resume_from_checkpoint = checkpoints.make({{"model.ubj", model.substr(0, 100)}});
  EXPECT_THAT(error_of_making(options).what(), HasSubstr("is not a model of"));
}

TEST_F(XGBoostBadInput, AModelToGoOnWithThatDoesNotFit) {
  Result result = XGBoostTrainer(runs_.options(1, {{"train", few_}})).fit();
  auto options = runs_.options(1, {{"train", few_}});
  options.resume_from_checkpoint = result.checkpoint;
  EXPECT_THAT(error_of_making(options).what(),
              AllOf(HasSubstr("has 10 rounds already"), HasSubstr("the rounds in all, is 10")));
  options = runs_.options(1, {{"train", few_.drop_columns({"x"})}});
  options.resume_from_checkpoint = result.checkpoint;
  options.num_boost_round = 12;
  EXPECT_THAT(error_of_fit(options).what(), HasSubstr("was trained on other columns"));
}

}  // namespace
}  // namespace manta
