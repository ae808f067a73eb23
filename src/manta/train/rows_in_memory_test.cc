// Rows of from_items and from_arrow in training: they travel to the data reader's process.

#include <arrow/api.h>
#include <gmock/gmock.h>
#include <sched.h>

#include <map>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/preprocess/scalers.h"
#include "manta/train/session.h"
#include "manta/train/test_training_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

void sum_of_x(const Json& config) {
  double sum = 0;
  int64_t rows = 0;
  for (const auto& batch : get_dataset_shard().iter_batches({.batch_size = 16})) {
    const auto& x = static_cast<const arrow::DoubleArray&>(*batch->GetColumnByName("x"));
    for (int64_t i = 0; i < x.length(); ++i) sum += x.Value(i);
    rows += batch->num_rows();
  }
  train::report({{"sum", sum}, {"rows", rows}});
  if (config.value("breaks", false)) throw std::runtime_error("broken");
}

Dataset many_items() {
  std::vector<Json> items;
  for (int i = 0; i < 20000; ++i) items.push_back({{"x", i}, {"y", i % 2 == 0}});
  return data::from_items(items);
}

TEST(RowsInMemoryTest, AreTrainedOn) {
  TemporaryFolder folder;
  Training training = test_training(folder.path(), sum_of_x);
  training.datasets.emplace("train", many_items());
  training.preprocessor = MinMaxScaler({"x"});
  Result result = run_training(training);
  EXPECT_EQ(result.metrics.at("rows"), 20000);
  EXPECT_NEAR(result.metrics.at("sum").get<double>(), 10000, 1e-6);
}

std::shared_ptr<arrow::RecordBatch> with_policy_of_reader(
    const std::shared_ptr<arrow::RecordBatch>& batch) {
  auto policy =
      arrow::MakeArrayFromScalar(arrow::Int64Scalar(::sched_getscheduler(0)), batch->num_rows());
  return batch->AddColumn(0, "policy", policy.ValueOrDie()).ValueOrDie();
}

void policies(const Json&) {
  for (const auto& batch : get_dataset_shard().iter_batches({.batch_size = 16})) {
    const auto& of_reader =
        static_cast<const arrow::Int64Array&>(*batch->GetColumnByName("policy"));
    train::report({{"reader", of_reader.Value(0)}, {"worker", ::sched_getscheduler(0)}});
    return;
  }
}

// Reading must not take a processor from a worker whose step others wait for.
TEST(RowsInMemoryTest, AreReadAsBatchWork) {
  TemporaryFolder folder;
  Training training = test_training(folder.path(), policies);
  training.datasets.emplace("train", many_items().map_batches(with_policy_of_reader));
  Result result = run_training(training);
  EXPECT_EQ(result.metrics.at("reader"), SCHED_BATCH);
  EXPECT_EQ(result.metrics.at("worker"), SCHED_OTHER);
}

TEST(RowsInMemoryTest, AreGivenAgainToARunThatIsRestored) {
  TemporaryFolder folder;
  Training training = test_training(folder.path(), sum_of_x, {{"breaks", true}});
  training.datasets.emplace("train", many_items().with_column("x", col("x") * 1.0));
  EXPECT_THAT(message_of([&] { run_training(training); }), HasSubstr("broken"));
  EXPECT_THAT(message_of([&] { restore_training(folder / "toy", "ToyTrainer", {}); }),
              HasSubstr("'train'"));
  Training restored = restore_training(
      folder / "toy", "ToyTrainer",
      {.config = Json::object(), .scaling = {}, .run = {}, .datasets = training.datasets});
  restored.loop = training.loop;
  EXPECT_EQ(run_training(restored).metrics.at("rows"), 20000);
}

}  // namespace
}  // namespace manta::train
