// The trainer as a user sees it. tests/training_test.cc kills processes.

#include "manta/torch/torch_trainer.h"

#include <arrow/api.h>
#include <arrow/io/file.h>
#include <gmock/gmock.h>
#include <parquet/arrow/writer.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>

#include <filesystem>
#include <fstream>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/predict/batch_predictor.h"
#include "manta/preprocess/scalers.h"
#include "manta/torch/backend_choice_internal.h"
#include "manta/torch/data_loader.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/seed_and_device.h"
#include "manta/torch/torch_batches.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_predictor.h"
#include "manta/train/session.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

// 203 rows: x (double), y = 3 x + 1 (float), flag (bool), count (int32, null in row 5), text.
std::string write_rows(const std::string& path) {
  arrow::DoubleBuilder x;
  arrow::FloatBuilder y;
  arrow::BooleanBuilder flag;
  arrow::Int32Builder count;
  arrow::StringBuilder text;
  for (int i = 0; i < 203; ++i) {
    double value = (i * 37 % 203) / 203.0;
    check(x.Append(value), "x");
    check(y.Append(static_cast<float>(3 * value + 1)), "y");
    check(flag.Append(i % 3 == 0), "flag");
    check(i == 5 ? count.AppendNull() : count.Append(i), "count");
    check(text.Append("t"), "text");
  }
  auto table = arrow::Table::Make(
      arrow::schema({arrow::field("x", arrow::float64()), arrow::field("y", arrow::float32()),
                     arrow::field("flag", arrow::boolean()), arrow::field("count", arrow::int32()),
                     arrow::field("text", arrow::utf8())}),
      {check(x.Finish(), "x"), check(y.Finish(), "y"), check(flag.Finish(), "flag"),
       check(count.Finish(), "count"), check(text.Finish(), "text")});
  auto out = check(arrow::io::FileOutputStream::Open(path), "test file");
  check(parquet::arrow::WriteTable(*table, arrow::default_memory_pool(), out, 50), "test file");
  check(out->Close(), "test file");
  return path;
}

struct NetImpl : torch::nn::Module {
  NetImpl() : linear(register_module("linear", torch::nn::Linear(1, 1))) {}
  torch::Tensor forward(const torch::Tensor& x) { return linear->forward(x); }
  torch::nn::Linear linear;
};
TORCH_MODULE(Net);

void fit_line(const Json& config) {
  torch::manual_seed(train::get_context().world_rank);  // rank 0's initial weights count
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(Net());
  torch::optim::SGD optimizer(model->parameters(), 0.1);
  for (int64_t epoch = shard.epoch(); epoch < config.value("epochs", 3); ++epoch) {
    for (auto& batch : iter_torch_batches(shard, {.global_batch_size = 32})) {
      auto loss = torch::mse_loss(model->forward(batch.columns({"x"})), batch["y"].unsqueeze(1));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    train::report({{"epoch", epoch}}, TorchCheckpoint::from_model(model, optimizer));
  }
}

class TorchTrainerTest : public testing::Test {
 protected:
  TorchTrainerOptions options(TrainLoop loop, int workers = 2) {
    TorchTrainerOptions options;
    options.train_loop_per_worker = loop;
    options.scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.25}};
    options.run_config = {.storage_path = folder_.path(), .verbose = false};
    options.run_config.name = "run-" + std::to_string(runs_++);
    options.datasets = {{"train", data::read_parquet(write_rows(folder_ / "rows.parquet"))}};
    return options;
  }
  TemporaryFolder folder_;
  int runs_ = 0;
};

std::vector<double> weights(const Checkpoint& checkpoint) {
  std::vector<double> values;
  TorchCheckpoint saved(checkpoint);
  for (const auto& item : saved.tensors()) values.push_back(item.tensor.item<double>());
  return values;
}

TEST_F(TorchTrainerTest, AnyNumberOfWorkersLearnsTheSame) {
  auto alone = weights(TorchTrainer(options(fit_line, 1)).fit().checkpoint);
  ASSERT_EQ(alone.size(), 2);
  for (int workers : {2, 3, 4}) {
    for (const char* backend : {"auto", "gloo"}) {
      auto many = options(fit_line, workers);
      many.torch_config.backend = backend;
      auto learned = weights(TorchTrainer(many).fit().checkpoint);
      for (size_t i = 0; i < 2; ++i) EXPECT_NEAR(learned[i], alone[i], 1e-5) << workers << backend;
    }
  }
}

TEST_F(TorchTrainerTest, TheResultIsWhatWasReported) {
  auto keep = options(fit_line);
  keep.run_config.checkpoint_config = {.num_to_keep = 2};
  keep.train_loop_config = {{"epochs", 4}};
  Result result = TorchTrainer(keep).fit();
  EXPECT_EQ(result.metrics.at("epoch"), 3);
  EXPECT_EQ(result.metrics_history.size(), 4);
  EXPECT_EQ(result.best_checkpoints.size(), 2);
  EXPECT_EQ(result.path, folder_ / "run-0");
  EXPECT_THAT(result.checkpoint.path(), HasSubstr("checkpoint_000003"));
  for (const char* file : {"params.json", "result.json", "progress.csv", "journal.jsonl",
                           "logs/rank-0.log", "logs/data-reader.log"}) {
    EXPECT_TRUE(std::filesystem::exists(result.path + "/" + file)) << file;
  }
  auto make = [](const Checkpoint& checkpoint) {
    return TorchPredictor::from_checkpoint(checkpoint, Net(), {.feature_columns = {"x"}});
  };
  auto table = BatchPredictor::from_checkpoint(result.checkpoint, make)
                   .predict(data::read_parquet(folder_ / "rows.parquet"), {.keep_columns = {"y"}})
                   .to_table();
  EXPECT_EQ(table->num_rows(), 203);
  EXPECT_EQ(table->schema()->ToString(), "y: float\npredictions: float");
  EXPECT_THAT(message_of([&] {
                make(result.checkpoint).predict(torch::zeros({5, 2}));
              }),
              AllOf(StartsWith("predict: the model failed on inputs of shape [5, 2]: "),
                    testing::Not(HasSubstr("frame #"))));
}

void keep_first_x(const Json&) {
  double first = 0;
  for (auto& batch : iter_torch_batches(train::get_dataset_shard(), {.batch_size = 1000})) {
    first = batch.columns({"x"}, torch::kFloat64).min().item<double>();
  }
  Net net;
  train::report({{"least", first}}, TorchCheckpoint::from_model(net));
}

TEST_F(TorchTrainerTest, ThePreprocessorIsAppliedAndKept) {
  auto scaled = options(keep_first_x);
  scaled.preprocessor = MinMaxScaler({"x"});
  Result result = TorchTrainer(scaled).fit();
  EXPECT_EQ(result.metrics.at("least"), 0);
  EXPECT_TRUE(result.checkpoint.get_preprocessor());
  EXPECT_EQ(result.rows.at("train"), 203);
}

TEST_F(TorchTrainerTest, TheLoopDecidesWhenThereIsACheckpoint) {
  auto often = options(fit_line);
  often.run_config.checkpoint_config.checkpoint_frequency = 2;
  EXPECT_THAT(message_of([&] { TorchTrainer{often}; }),
              HasSubstr("cannot be set for a TorchTrainer: its loop decides"));
  often.run_config.checkpoint_config = {.checkpoint_at_end = false};
  EXPECT_THAT(message_of([&] { TorchTrainer{often}; }), HasSubstr("its loop decides"));
}

TEST_F(TorchTrainerTest, BatchesConvertColumns) {
  auto loop = [] {
    auto shard = train::get_dataset_shard();
    for (auto& batch : iter_torch_batches(shard, {.batch_size = 300})) {
      auto count = batch.column("count", torch::kFloat32);
      bool good = batch.rows() == 203 && batch["flag"].dtype() == torch::kBool &&
                  batch["flag"].sum().item<int64_t>() == 68 && count[5].isnan().item<bool>() &&
                  count[6].item<double>() == 6 && batch["x"][1].item<double>() == 37 / 203.0 &&
                  batch.columns({"x", "y"}).sizes() == torch::IntArrayRef({203, 2}) &&
                  torch::equal(batch.columns({"y", "x"}).select(1, 0), batch["y"]);
      std::string errors = message_of([&] { batch["count"]; }) + "|" +
                           message_of([&] { batch["text"]; }) + "|" +
                           message_of([&] { batch["z"]; });
      train::report({{"good", good}, {"errors", errors}});
    }
  };
  Result result = TorchTrainer(options(loop, 1)).fit();
  EXPECT_EQ(result.metrics.at("good"), true);
  EXPECT_THAT(
      result.metrics.at("errors").get<std::string>(),
      AllOf(HasSubstr("column 'count' has a null"), HasSubstr("column 'text' is of type string"),
            HasSubstr("no column 'z'; there are 'x', 'y', 'flag', 'count', 'text'")));
  EXPECT_FALSE(result.checkpoint);
  auto floats = [] {
    TorchBatchOptions options{.batch_size = 300, .dtypes = torch::kFloat32};
    for (auto& batch : iter_torch_batches(train::get_dataset_shard(), options)) {
      train::report({{"flags", batch["flag"].sum().item<double>()},
                     {"type", c10::toString(batch["x"].scalar_type())}});
    }
  };
  EXPECT_EQ(TorchTrainer(options(floats, 1)).fit().metrics,
            Json({{"flags", 68.0}, {"type", "Float"}}));
  auto unknown = [] {
    TorchBatchOptions options{.dtypes = {{"z", torch::kFloat32}}};
    for (auto& batch : iter_torch_batches(train::get_dataset_shard(), options)) (void)batch;
  };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(unknown, 1)).fit(); }),
              HasSubstr("no column 'z'; there are 'x', 'y', 'flag', 'count', 'text'"));
}

TEST_F(TorchTrainerTest, FilesOfEveryWorkerMakeACheckpoint) {
  auto loop = [] {
    auto context = train::get_context();
    std::string folder = context.run_folder + "/mine-" + std::to_string(context.world_rank);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/part-" + std::to_string(context.world_rank)) << context.world_rank;
    train::report({{"n", 1}}, folder);
    std::filesystem::remove_all(folder);  // report() has copied it
  };
  auto plain = options(loop);
  plain.datasets.clear();
  Result result = TorchTrainer(plain).fit();
  EXPECT_THAT(result.checkpoint.files(), testing::UnorderedElementsAre("part-0", "part-1"));

  auto same = [] {
    std::string folder = train::get_context().run_folder + "/same-" +
                         std::to_string(train::get_context().world_rank);
    std::filesystem::create_directories(folder);
    std::ofstream(folder + "/part") << "x";
    train::report({{"n", 1}}, folder);
  };
  auto clash = options(same);
  EXPECT_THAT(message_of([&] { TorchTrainer(clash).fit(); }), HasSubstr("part"));
}

TEST_F(TorchTrainerTest, BadOptionsAreSaid) {
  EXPECT_THAT(message_of([] { TorchTrainer{TorchTrainerOptions()}; }),
              HasSubstr("needs a train_loop_per_worker"));
  auto none = options(fit_line, -1);
  EXPECT_THAT(message_of([&] { TorchTrainer{none}; }),
              HasSubstr("scaling_config.num_workers must be at least 1"));
  auto backend = options(fit_line);
  backend.torch_config.backend = "mpi";
  EXPECT_THAT(message_of([&] { TorchTrainer{backend}; }), HasSubstr("was 'mpi'"));
  auto many = options(fit_line, 3);
  many.scaling_config.resources_per_worker = {.cpus = 1};
  EXPECT_THAT(message_of([&] { TorchTrainer(many).fit(); }),
              HasSubstr("asks for 3 workers with 1 CPU each, but there is only 2 CPU"));
  many.scaling_config.num_workers = 2;
  many.run_config.checkpoint_config.num_to_keep = -1;
  EXPECT_THAT(message_of([&] { TorchTrainer{many}; }), HasSubstr("num_to_keep"));
  EXPECT_FALSE(std::filesystem::exists(folder_ / many.run_config.name));  // the name is still free
  EXPECT_THAT(message_of([&] { TorchTrainer::restore(folder_ / "nothing", {}); }),
              HasSubstr("is no run folder"));
  EXPECT_FALSE(TorchTrainer::can_restore(folder_ / "nothing"));
  auto twice = options(fit_line);
  TorchTrainer(twice).fit();
  EXPECT_THAT(message_of([&] { TorchTrainer(twice).fit(); }), HasSubstr("restore"));
}

// The program has declared one GPU in its InitOptions; whether there is one does not matter here.
TEST_F(TorchTrainerTest, GpusGoThroughTheLedger) {
  auto loop = [] {
    const char* visible = std::getenv("CUDA_VISIBLE_DEVICES");
    if (!visible) throw std::runtime_error("CUDA_VISIBLE_DEVICES is not set");
    std::string device;
    try {
      device = train::get_device().str();
    } catch (const Error& error) {
      device = error.what();
    }
    train::report({{"visible", visible}, {"device", device}});
  };
  auto halves = options(loop);
  halves.datasets.clear();
  halves.scaling_config.resources_per_worker.gpus = 0.5;
  EXPECT_EQ(TorchTrainer(halves).fit().metrics.at("visible"), "0");
  auto whole = options(loop, 1);
  whole.datasets.clear();
  whole.scaling_config.use_gpu = true;
  Json metrics = TorchTrainer(whole).fit().metrics;
  EXPECT_EQ(metrics.at("visible"), "0");
  if (!train::backend_facts().built_for_gpu) {
    EXPECT_THAT(metrics.at("device").get<std::string>(),
                AllOf(HasSubstr("was given GPU 0"), HasSubstr("built for CPUs only")));
  }
  whole.scaling_config.num_workers = 2;
  EXPECT_THAT(message_of([&] { TorchTrainer(whole).fit(); }),
              AllOf(HasSubstr("asks for 2 workers with 0.25 CPU, 1 GPU each"),
                    HasSubstr("there is only 2 CPU, 1 GPU")));
}

TEST_F(TorchTrainerTest, WorkersMaySeedDifferently) {
  auto loop = [] {
    auto rank = static_cast<uint64_t>(train::get_context().world_rank);
    uint64_t same = train::seed_all(5), own = train::seed_all(5, {.per_rank = true});
    if (same != 5 || own != 5 + rank) throw std::runtime_error("the seeds");
    train::report({{"seeds", {same, own}}});
  };
  auto seeded = options(loop);
  seeded.datasets.clear();
  EXPECT_EQ(TorchTrainer(seeded).fit().metrics.at("seeds"), Json({5, 5}));
}

// Every worker gets its part of each epoch, and keeps the same weights.
TEST_F(TorchTrainerTest, DataSetsOfTorchAreSplit) {
  struct Numbers : torch::data::datasets::Dataset<Numbers> {
    torch::data::Example<> get(size_t index) override {
      return {torch::full({1}, static_cast<float>(index)), torch::full({1}, 1.0f)};
    }
    std::optional<size_t> size() const override { return 11; }
  };
  auto loop = [] {
    auto loader = train::prepare_data_loader(Numbers().map(torch::data::transforms::Stack<>()),
                                             {.batch_size = 4, .seed = 2});
    auto model = train::prepare_model(
        Net(),
        {.find_unused_parameters = false, .broadcast_buffers = false, .bucket_bytes = 1 << 20});
    torch::optim::SGD optimizer(model->parameters(), 1e-3);
    torch::Tensor seen = torch::zeros({11});
    for (int epoch = 0; epoch < 2; ++epoch) {
      loader.set_epoch(epoch);
      for (auto& batch : loader) {
        optimizer.zero_grad();
        torch::mse_loss(model->forward(batch.data), batch.target).backward();
        optimizer.step();
        seen.index_add_(0, batch.data.flatten().to(torch::kInt64),
                        torch::ones({batch.data.size(0)}));
      }
    }
    std::vector<torch::Tensor> all = {seen};
    train::get_process_group()->allreduce(all)->wait();
    train::report({{"least", all[0].min().item<double>()}, {"sum", all[0].sum().item<double>()}},
                  TorchCheckpoint::from_model(model));
  };
  auto split = options(loop);
  split.datasets.clear();
  Result result = TorchTrainer(split).fit();
  EXPECT_EQ(result.metrics.at("least"), 2);  // in both epochs
  EXPECT_EQ(result.metrics.at("sum"), 24);   // 11 rows and one again, twice
  auto wrong = [] { train::prepare_model(Net(), {.bucket_bytes = 0}); };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(wrong)).fit(); }),
              HasSubstr("bucket_bytes must be positive"));
}

TEST_F(TorchTrainerTest, BadCallsInTheLoopAreSaid) {
  EXPECT_THAT(message_of([] {
                train::report({{"a", 1}});
              }),
              HasSubstr("works only inside a training loop"));
  auto no_such_data = [] { train::get_dataset_shard("valid"); };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(no_such_data)).fit(); }),
              HasSubstr("no data set 'valid'; it has: train"));
  auto no_object = [] { train::report(5); };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(no_object)).fit(); }),
              HasSubstr("metrics must be a JSON object"));
  auto unequal = [] {
    if (train::get_context().world_rank == 0) train::report({{"a", 1}});
  };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(unequal)).fit(); }), HasSubstr("report"));
  auto different = [] {
    int64_t size = train::get_context().world_rank == 0 ? 10 : 20;
    for (auto& batch : iter_torch_batches(train::get_dataset_shard(), {.batch_size = size}))
      (void)batch;
  };
  EXPECT_THAT(message_of([&] { TorchTrainer(options(different)).fit(); }),
              HasSubstr("workers must iterate over the same data in the same way"));
  auto greedy = options([] {
    for (auto& batch : iter_torch_batches(train::get_dataset_shard())) (void)batch;
  });
  greedy.datasets = {
      {"train", data::read_parquet(folder_ / "rows.parquet").filter(col("x") < 0.001)}};
  EXPECT_THAT(message_of([&] { TorchTrainer(greedy).fit(); }),
              HasSubstr("data set 'train' gives 1 rows, which is not one for each of 2 workers"));
}

TEST_F(TorchTrainerTest, WhatWasReportedBeforeAnExceptionIsNotReportedAgain) {
  auto loop = [] {
    auto context = train::get_context();
    Net net;
    for (int n = train::get_checkpoint() ? 1 : 0; n < 2; ++n) {
      train::report({{"n", n}, {"attempt", context.attempt}}, TorchCheckpoint::from_model(net));
      if (n == 0) throw std::runtime_error("after the report");
    }
  };
  auto failing = options(loop);
  failing.run_config.failure_config.max_failures = 1;
  Result result = TorchTrainer(failing).fit();
  ASSERT_EQ(result.metrics_history.size(), 2);
  EXPECT_EQ(result.metrics_history[0].at("attempt"), 0);
  EXPECT_EQ(result.metrics_history[1].at("attempt"), 1);
}

TEST_F(TorchTrainerTest, ALoopThatForgetsTheCheckpointIsWarned) {
  auto loop = [] {
    Net net;
    train::report({{"n", 0}}, TorchCheckpoint::from_model(net));
    if (train::get_context().attempt == 0) throw std::runtime_error("once");
  };
  auto forgetful = options(loop);
  forgetful.run_config.failure_config.max_failures = 1;
  Result result = TorchTrainer(forgetful).fit();
  std::ifstream log(result.path + "/logs/rank-0.log");
  std::string text(std::istreambuf_iterator<char>(log), {});
  EXPECT_THAT(text, HasSubstr("the loop has not called train::get_checkpoint()"));
}

TEST_F(TorchTrainerTest, ACheckpointMayBeWhereARunBegins) {
  Result first = TorchTrainer(options(fit_line)).fit();
  auto loop = [] {
    TorchCheckpoint saved(train::get_checkpoint());
    train::report({{"tensors", saved.tensors().size()}});
  };
  auto second = options(loop);
  second.resume_from_checkpoint = first.checkpoint;
  EXPECT_EQ(TorchTrainer(second).fit().metrics.at("tensors"), 2);
}

}  // namespace
}  // namespace manta
