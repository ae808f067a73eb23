// A preprocessor in one file: how it is fitted, applied, stored and restored.

#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <bit>
#include <filesystem>
#include <fstream>
#include <optional>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/grouped.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/chain.h"
#include "manta/preprocess/fold_batches.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/run_handle.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using data::ParquetFolder;
using testing::HasSubstr;

// How often it was fitted in this process.
std::atomic<int> fits = 0;

// Takes the smallest id from all ids.
class FromZero final : public Preprocessor {
 public:
  FromZero() = default;
  std::string name() const override { return "FromZero"; }
  std::vector<std::string> input_columns() const override { return {"id"}; }
  std::vector<std::string> output_columns() const override { return {"id"}; }
  void fit(const Dataset& dataset) override {
    ++fits;
    least_ = fold_batches<int64_t>(
        dataset.select_columns({"id"}),
        [](const data::BatchPtr& batch) {
          auto ids = data::ints(*batch, "id");
          return *std::min_element(ids.begin(), ids.end());
        },
        [](int64_t& all, int64_t more) { all = std::min(all, more); });
  }
  bool is_fitted() const override { return least_.has_value(); }
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override {
    arrow::Int64Builder builder;
    for (int64_t id : data::ints(*batch, "id")) check(builder.Append(id - least_.value()), "id");
    return check(
        batch->SetColumn(batch->schema()->GetFieldIndex("id"), arrow::field("id", arrow::int64()),
                         check(builder.Finish(), "id")),
        "ids from zero");
  }
  Json state() const override { return least_ ? Json{{"least", *least_}} : Json::object(); }
  static FromZero from_state(const Json& state) {
    FromZero result;
    result.least_ = state.at("least").get<int64_t>();
    return result;
  }

 private:
  std::optional<int64_t> least_;
};

[[maybe_unused]] const bool from_zero_is_known = register_preprocessor<FromZero>("FromZero");

void sum_of_ids(const Json& config) {
  int64_t sum = 0, rows = 0;
  for (const auto& batch : get_dataset_shard().iter_batches({.batch_size = 8})) {
    for (int64_t id : data::ints(*batch, "id")) sum += id;
    rows += batch->num_rows();
  }
  std::string files = get_context().run_folder + "/mine";
  std::filesystem::create_directories(files);
  std::ofstream(files + "/model") << sum;
  train::report({{"sum", sum}, {"rows", rows}}, files);
  if (config.value("breaks", false)) throw std::runtime_error("broken");
}

Training summing(ParquetFolder& folder, const Json& config) {
  folder.write_rows("a.parquet", 1000, 50, 20);
  Training training = test_training(folder.path(), sum_of_ids, config);
  training.datasets.emplace("train", data::read_parquet(folder.file("a.parquet")));
  return training;
}

TEST(ToyPreprocessorTest, IsFittedOnceAppliedAndKept) {
  ParquetFolder folder;
  Training training = summing(folder, {{"breaks", true}});
  training.preprocessor = FromZero();
  EXPECT_THAT(message_of([&] { run_training(training); }), HasSubstr("broken"));
  EXPECT_EQ(fits, 1);
  EXPECT_FALSE(training.preprocessor->is_fitted()) << "the run has a copy of its own";

  Training restored = restore_training(folder / "toy", "ToyTrainer", {});
  ASSERT_TRUE(restored.preprocessor);
  EXPECT_TRUE(restored.preprocessor->is_fitted());
  restored.loop = training.loop;
  restored.config = Json::object();
  Result result = run_training(restored);
  for (const Json& metrics : result.metrics_history) {
    EXPECT_EQ(metrics.at("sum"), 49 * 50 / 2);
    EXPECT_EQ(metrics.at("rows"), 50);
  }

  EXPECT_THAT(result.checkpoint.files(), testing::UnorderedElementsAre("model", kPreprocessorFile));
  EXPECT_EQ(fits, 1);
  AnyPreprocessor found = result.checkpoint.get_preprocessor();
  ASSERT_TRUE(found);
  auto ids = data::ints(*found->transform(training.datasets.at("train")).to_table(), "id");
  EXPECT_EQ(*std::min_element(ids.begin(), ids.end()), 0);
}

void report_features(const Json&) {
  Json features = Json::array();
  for (const auto& batch : get_dataset_shard().iter_batches({.batch_size = 8})) {
    const auto& column = static_cast<const arrow::DoubleArray&>(*batch->GetColumnByName("half"));
    for (int64_t i = 0; i < column.length(); ++i) {
      features.push_back(column.IsNull(i) ? Json() : Json(column.Value(i)));
    }
  }
  std::string files = get_context().run_folder + "/mine";
  std::filesystem::create_directories(files);
  std::ofstream(files + "/model") << "none";
  train::report({{"features", features}}, files);
}

TEST(ToyPreprocessorTest, ARowHasTheSameBitsInTrainingAndInServing) {
  ParquetFolder folder;
  folder.write_rows("a.parquet", 1000, 500, 70);
  Dataset dataset = data::read_parquet(folder.file("a.parquet"));
  Training training = test_training(folder.path(), report_features);
  training.datasets.emplace("train", dataset);
  training.preprocessor = Chain(StandardScaler({"half"}), MinMaxScaler({"half"}));
  Result result = run_training(training);
  const Json& trained = result.metrics.at("features");
  ASSERT_EQ(trained.size(), 500u);

  AnyPreprocessor served_by =
      Checkpoint::from_directory(result.checkpoint.path()).get_preprocessor();
  auto requests = check(dataset.to_table()->CombineChunksToBatch(), "the rows");
  for (int64_t row = 0; row < requests->num_rows(); ++row) {
    auto served = served_by->transform_batch(requests->Slice(row, 1));
    const auto& feature = static_cast<const arrow::DoubleArray&>(*served->GetColumnByName("half"));
    const Json& expected = trained[static_cast<size_t>(row)];
    ASSERT_EQ(feature.IsNull(0), expected.is_null());
    if (feature.IsNull(0)) continue;
    ASSERT_EQ(std::bit_cast<uint64_t>(feature.Value(0)),
              std::bit_cast<uint64_t>(expected.get<double>()))
        << "row " << row;
  }
}

std::atomic<int> batches_seen = 0;

// So slow that a fit of all of its rows takes ten minutes.
Dataset endless_rows() {
  return data::range(int64_t{10'000'000'000}).map_batches([](const data::BatchPtr& batch) {
    ++batches_seen;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return batch;
  });
}

void expect_that_a_fit_ends_soon(const Dataset& rows) {
  for (AnyPreprocessor preprocessor :
       {AnyPreprocessor(FromZero()), AnyPreprocessor(StandardScaler({"id"}))}) {
    TemporaryFolder storage;
    Training training = test_training(storage.path(), report_features);
    training.datasets.emplace("train", rows);
    training.preprocessor = preprocessor;
    batches_seen = 0;
    RunHandle run(training);
    EXPECT_TRUE(eventually([&] { return batches_seen > 0; }));
    run.stop();
    Error error = error_of([&] { run.result(); });
    EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
    EXPECT_THAT(error.what(), HasSubstr("while its preprocessor, " + preprocessor->to_string()));
    training.preprocessor = {};  // nothing remains that would keep the name in use
    training.datasets.clear();
    training.loop = TrainLoop([] { train::report({{"n", 1}}); }).function();
    training.loop_takes_config = false;
    EXPECT_EQ(run_training(training).metrics_history.size(), 1u);
  }
}

TEST(ToyPreprocessorTest, AFitEndsSoonWhenTheRunIsToEnd) {
  expect_that_a_fit_ends_soon(endless_rows());
}
TEST(ToyPreprocessorTest, SoDoesASortBeforeAFit) {
  expect_that_a_fit_ends_soon(endless_rows().sort("id"));
}
TEST(ToyPreprocessorTest, SoDoesAGroupByBeforeAFit) {
  expect_that_a_fit_ends_soon(endless_rows().groupby("id").count().select_columns({"id"}));
}

TEST(ToyPreprocessorTest, NeedsDataToLearnFrom) {
  ParquetFolder folder;
  Training training = summing(folder, {});
  training.preprocessor = FromZero();
  training.datasets.clear();
  EXPECT_THAT(message_of([&] { run_training(training); }),
              HasSubstr("learns from the data set 'train'"));
  EXPECT_FALSE(std::filesystem::exists(folder / "toy"));
}

TEST(ToyPreprocessorTest, WhatIsKeptIsCheckedWhenItIsRead) {
  auto reading = [](const char* text) {
    return error_of([&] { AnyPreprocessor::from_json(Json::parse(text), "'x.json'"); });
  };
  EXPECT_EQ(reading("[]").kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(reading(R"({"version": 2, "name": "FromZero", "state": {}})").what(),
              HasSubstr("'x.json' is damaged: version is 2"));
  EXPECT_THAT(reading(R"({"version": 1, "name": "Unknown", "state": {}})").what(),
              HasSubstr("'Unknown', which this program does not have"));
  Error error = reading(R"({"version": 1, "name": "FromZero", "state": {}})");
  EXPECT_EQ(error.kind(), ErrorKind::kCorrupt);
  EXPECT_THAT(error.what(), HasSubstr("state of 'FromZero'"));
}

}  // namespace
}  // namespace manta::train
