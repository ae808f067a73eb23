#include "manta/predict/predictor.h"

#include <gmock/gmock.h>

#include <bit>
#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/predict/predict_fixture_internal.h"
#include "manta/predict/predictor_factory.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/preprocess_fixture_internal.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta {

LinePredictor LinePredictor::from_checkpoint(const Checkpoint& checkpoint) {
  ++loaded;
  double factor = 0;
  std::ifstream(checkpoint.file("line")) >> factor;
  return LinePredictor(checkpoint.get_preprocessor(), factor);
}

data::BatchPtr LinePredictor::predict_features(const data::BatchPtr& features) const {
  auto x = preprocess::doubles(*features, "x"), y = preprocess::doubles(*features, "y");
  arrow::DoubleBuilder builder;
  for (size_t i = 0; i < x.size(); ++i) {
    check(builder.Append(factor_ * x[i] + y[i]), "predictions");
  }
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", arrow::float64())}),
                                  features->num_rows(), {check(builder.Finish(), "predictions")});
}

namespace {

using preprocess::batch_of;
using preprocess::doubles;
using testing::ElementsAre;
using testing::HasSubstr;

const auto kRows = batch_of({{"y", arrow::float64(), {10, 20}},
                             {"more", arrow::utf8(), {"a", "b"}},
                             {"x", arrow::float64(), {1, 2}}});

// "sum" of x and y, before the model sees them.
class AddSum final : public Preprocessor {
 public:
  void fit(const Dataset&) override {}
  bool is_fitted() const override { return true; }
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override { return batch; }
  std::vector<std::string> input_columns() const override { return {"a", "b"}; }
  std::vector<std::string> output_columns() const override { return {"x"}; }
  std::string name() const override { return "AddSum"; }
  Json state() const override { return Json::object(); }
  static AddSum from_state(const Json&) { return {}; }
};
[[maybe_unused]] const bool sum_is_known = register_preprocessor<AddSum>("AddSum");

TEST(PredictorTest, AppliesThePreprocessorAndThenTheModel) {
  CheckpointMaker checkpoints;
  auto plain = LinePredictor::from_checkpoint(checkpoints.make({{"line", "3"}}));
  EXPECT_THAT(plain.input_columns(), ElementsAre("x", "y"));
  EXPECT_THAT(doubles(*plain.predict(kRows), "predictions"), ElementsAre(13, 26));

  AnyPreprocessor scaler = MinMaxScaler({"y"});
  scaler->fit(data::from_arrow(std::vector{kRows}));
  auto scaled = LinePredictor::from_checkpoint(checkpoints.make({{"line", "3"}}, scaler));
  EXPECT_THAT(scaled.input_columns(), ElementsAre("y", "x"));
  EXPECT_THAT(doubles(*scaled.predict(kRows), "predictions"), ElementsAre(3, 7));
  LinePredictor copy = scaled;
  EXPECT_THAT(doubles(*copy.predict(kRows->Slice(1)), "predictions"), ElementsAre(7));
  EXPECT_EQ(copy.predict(kRows->Slice(2))->num_rows(), 0);
}

TEST(PredictorTest, AllColumnsThatAreMissingAreListed) {
  CheckpointMaker checkpoints;
  auto predictor = LinePredictor::from_checkpoint(checkpoints.make({{"line", "3"}}, AddSum()));
  EXPECT_THAT(predictor.input_columns(), ElementsAre("a", "b", "y"))
      << "x is made by the preprocessor";
  Error error = error_of([&] { predictor.predict(batch_of({{"b", arrow::float64(), {1}}})); });
  EXPECT_EQ(error.kind(), ErrorKind::kNotFound);
  EXPECT_THAT(error.what(), HasSubstr("the columns a, y are missing; the rows have: b"));

  auto twice = batch_of(
      {{"x", arrow::float64(), {1}}, {"x", arrow::float64(), {2}}, {"y", arrow::float64(), {1}}});
  auto plain = LinePredictor::from_checkpoint(checkpoints.make({{"line", "3"}}));
  error = error_of([&] { plain.predict(twice); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("'x' is there 2 times"));
}

// Records the bits of the rows that a worker sees.
void keep_features(const Json&) {
  std::string files = train::get_context().run_folder + "/mine";
  std::filesystem::create_directories(files);
  std::ofstream features(files + "/features");
  for (const auto& batch : train::get_dataset_shard().iter_batches({.batch_size = 7})) {
    const auto& column = static_cast<const arrow::DoubleArray&>(*batch->GetColumnByName("half"));
    for (int64_t i = 0; i < column.length(); ++i) {
      features << (column.IsNull(i) ? 0 : std::bit_cast<uint64_t>(column.Value(i))) << "\n";
    }
  }
  features.close();
  train::report({{"done", true}}, files);
}

TEST(PredictorTest, LoadModelIsTheCheckpointsModelReadyToPredict) {
  CheckpointMaker maker;
  auto model = load_model<LinePredictor>(maker.make({{"line", "3"}}));
  EXPECT_THAT(doubles(*model.predict(kRows), "predictions"), ElementsAre(13, 26));
  EXPECT_THAT(model.input_columns(), ElementsAre("x", "y"));
  EXPECT_THAT(message_of([] { load_model<LinePredictor>({}); }),
              HasSubstr("load_model: there is no checkpoint"));
  EXPECT_THAT(message_of([&] {
                load_model<LinePredictor>(maker.make({{"other", "3"}}));
              }),
              HasSubstr("has no file 'line'"));
}

// A model whose prediction is its feature.
class Features final : public Predictor {
 public:
  static Features from_checkpoint(const Checkpoint& checkpoint) {
    return Features(checkpoint.get_preprocessor());
  }

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override {
    return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", arrow::float64())}),
                                    features->num_rows(), {features->GetColumnByName("half")});
  }

 private:
  explicit Features(AnyPreprocessor preprocessor) : Predictor(std::move(preprocessor), {"half"}) {}
};

TEST(PredictorTest, ARowHasTheSameBitsInTrainingAndInPrediction) {
  data::ParquetFolder folder;
  folder.write_rows("a.parquet", 1000, 500, 70);
  Dataset dataset = data::read_parquet(folder.file("a.parquet"));
  auto training = train::test_training(folder.path(), keep_features);
  training.datasets.emplace("train", dataset);
  training.preprocessor = Chain(StandardScaler({"half"}), MinMaxScaler({"half"}));
  Result result = train::run_training(training);
  std::ifstream file(result.checkpoint.file("features"));
  std::vector<uint64_t> trained;
  for (uint64_t bits = 0; file >> bits;) trained.push_back(bits);
  ASSERT_EQ(trained.size(), 500u);

  auto predictor = PredictorFactory::of<Features>().make(result.checkpoint);
  auto rows = preprocess::all_of(dataset);
  for (int64_t size : {int64_t{1}, int64_t{64}, rows->num_rows()}) {
    for (int64_t first = 0; first < rows->num_rows(); first += size) {
      auto served = predictor->predict(rows->Slice(first, size));
      const auto& column =
          static_cast<const arrow::DoubleArray&>(*served->GetColumnByName("predictions"));
      for (int64_t i = 0; i < served->num_rows(); ++i) {
        uint64_t bits = column.IsNull(i) ? 0 : std::bit_cast<uint64_t>(column.Value(i));
        ASSERT_EQ(bits, trained[static_cast<size_t>(first + i)]) << "row " << first + i;
      }
    }
  }
}

}  // namespace
}  // namespace manta
