#include "manta/torch/to_torch.h"

#include <arrow/api.h>
#include <gmock/gmock.h>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/data/parquet_fixture_internal.h"
#include "manta/data/sources.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;

Dataset line(int64_t rows) {
  return data::range(rows)
      .with_column("x", col("id") / 10)
      .with_column("y", col("id") * 2 + 1)
      .drop_columns({"id"});
}

TEST(ToTorchTest, PairsOfADataSet) {
  std::vector<int64_t> rows;
  double features = 0, labels = 0;
  for (auto& [x, y] : to_torch(line(10), {.label_column = "y",
                                         .feature_columns = {"x"},
                                         .label_column_dtype = torch::kInt64,
                                         .feature_column_dtype = torch::kFloat64,
                                         .batch_size = 4})) {
    rows.push_back(x.size(0));
    EXPECT_THAT(x.sizes(), ElementsAre(rows.back(), 1));
    EXPECT_THAT(y.sizes(), ElementsAre(rows.back(), 1));
    EXPECT_EQ(x.scalar_type(), torch::kFloat64);
    EXPECT_EQ(y.scalar_type(), torch::kInt64);
    features += x.sum().item<double>();
    labels += y.sum().item<double>();
  }
  EXPECT_THAT(rows, ElementsAre(4, 4, 2));
  EXPECT_DOUBLE_EQ(features, 4.5);
  EXPECT_EQ(labels, 100);

  rows.clear();
  ToTorchOptions all{.label_column = "y", .batch_size = 4, .drop_last = true};
  all.unsqueeze_label_tensor = false;
  for (auto& [x, y] : to_torch(line(10), all)) {
    rows.push_back(y.size(0));
    EXPECT_EQ(y.dim(), 1);
    EXPECT_EQ(x.size(1), 1);  // all columns but the label
  }
  EXPECT_THAT(rows, ElementsAre(4, 4));
  for (auto& [x, y] : to_torch(line(3))) {
    EXPECT_THAT(x.sizes(), ElementsAre(3, 2));
    EXPECT_FALSE(y.defined());
  }
}

TEST(ToTorchTest, MistakesAreNamed) {
  auto walk = [](const ToTorchOptions& options) {
    return message_of([&] {
      for (auto& pair : to_torch(line(3), options)) (void)pair;
    });
  };
  EXPECT_THAT(walk({.label_column = "Y"}), HasSubstr("no column 'Y'; did you mean 'y'?"));
  EXPECT_THAT(walk({.label_column = "y", .feature_columns = {"x1"}}),
              HasSubstr("there is no column 'x1'"));
  EXPECT_THAT(walk({.label_column = "y", .feature_columns = {"x", "y"}}),
              HasSubstr("the label_column 'y' is one of the feature_columns"));
  EXPECT_THAT(walk({.batch_size = 0}), HasSubstr("batch_size of at least 1, not 0"));
  EXPECT_THAT(message_of([] {
                ToTorchOptions options{.label_column = "y"};
                for (auto& pair : to_torch(line(3).select_columns({"y"}), options)) (void)pair;
              }),
              HasSubstr("no column but the label, 'y'"));
}

TEST(ToTorchTest, DataSetsCanBeShuffledByEpoch) {
  auto ids = [](int64_t epoch) {
    Dataset shuffled = data::range(1000).window_shuffle({.seed = 3});
    std::vector<int64_t> order;
    for (auto& batch : iter_torch_batches(shuffled, {.batch_size = 300, .epoch = epoch})) {
      auto tensor = batch["id"];
      order.insert(order.end(), tensor.data_ptr<int64_t>(),
                   tensor.data_ptr<int64_t>() + tensor.numel());
    }
    return order;
  };
  EXPECT_NE(ids(0), ids(1));
  EXPECT_EQ(ids(1), ids(1));
  EXPECT_THAT(ids(1), testing::UnorderedElementsAreArray([] {
                std::vector<int64_t> all(1000);
                for (size_t i = 0; i < all.size(); ++i) all[i] = int64_t(i);
                return all;
              }()));
}

// As workers get them: dictionaries as the values that they encode.
TEST(ToTorchTest, DictionariesOfADataSetAreWhatTheyStandFor) {
  auto dictionary = data::array_from_json(arrow::int64(), {5, 7});
  auto codes = data::array_from_json(arrow::int8(), {1, 0, 1});
  auto column = check(arrow::DictionaryArray::FromArrays(codes, dictionary), "test data");
  auto rows = data::from_arrow(
      arrow::Table::Make(arrow::schema({arrow::field("d", column->type())}), {column}));
  std::vector<int64_t> seen;
  for (auto& batch : iter_torch_batches(rows, {.batch_size = 2})) {
    auto tensor = batch["d"];
    seen.insert(seen.end(), tensor.data_ptr<int64_t>(),
                tensor.data_ptr<int64_t>() + tensor.numel());
  }
  EXPECT_EQ(seen, (std::vector<int64_t>{7, 5, 7}));
}

TEST(ToTorchTest, ADataSetWithoutRowsHasNoBatches) {
  for (auto& batch : iter_torch_batches(data::range(0))) ADD_FAILURE() << batch.rows();
  for (auto& batch : iter_torch_batches(data::range(9).filter(col("id") < 0))) {
    ADD_FAILURE() << batch.rows();
  }
}

// Two data sets side by side, on two workers, for as many epochs as they ask for; after a failure
// only the missing epochs.
TEST(ToTorchTest, EpochsOfARunThatFailsInTheMiddle) {
  auto loop = [](const Json&) {
    bool again = static_cast<bool>(train::get_checkpoint());
    auto epochs = train::get_dataset_shard("train").iter_epochs();
    auto validation = train::get_dataset_shard("validation").iter_epochs();
    while (auto epoch = epochs.next()) {
      auto side = validation.next();
      double sum = 0, side_sum = 0;
      for (auto& [x, y] : to_torch(*epoch, {.label_column = "y", .batch_size = 8})) {
        sum += y.sum().item<double>();
      }
      for (auto& [x, y] : to_torch(*side, {.label_column = "y", .batch_size = 8})) {
        side_sum += y.sum().item<double>();
      }
      std::string read_twice = message_of([&] { to_torch(*epoch); });
      TorchCheckpoint checkpoint;
      checkpoint.set("sum", sum);
      train::report({{"epoch", epoch->number()},
                     {"sum", sum},
                     {"side", side_sum},
                     {"read_twice", read_twice}},
                    checkpoint);
      if (epoch->number() == 1 && !again) throw std::runtime_error("on purpose");
    }
    if (auto more = validation.next(); !more || more->number() != 3) {
      throw std::runtime_error("the validation set has no end");
    }
  };
  TemporaryFolder folder;
  TorchTrainerOptions options;
  options.train_loop_per_worker = loop;
  options.scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.25}};
  options.run_config = {.name = "epochs", .storage_path = folder.path(), .verbose = false};
  options.run_config.failure_config.max_failures = 1;
  options.datasets = {{"train", line(40).repeat(3).window_shuffle({.seed = 1})},
                      {"validation", line(20).repeat()}};
  Result result = TorchTrainer(options).fit();
  ASSERT_EQ(result.metrics_history.size(), 3u);
  for (size_t i = 0; i < 3; ++i) {
    const Json& metrics = result.metrics_history[i];
    EXPECT_EQ(metrics.at("epoch"), i);
    EXPECT_GT(metrics.at("sum").get<double>(), 0);
    EXPECT_THAT(metrics.at("read_twice").get<std::string>(),
                HasSubstr("of data set 'train' is over: an epoch can be read once"));
  }
  EXPECT_EQ(result.rows.at("train"), 40);
  EXPECT_EQ(result.rows.at("validation"), 20);
}

}  // namespace
}  // namespace manta
