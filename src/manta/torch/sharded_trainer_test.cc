// Sharded models in runs: a checkpoint of one number of workers is loaded by another number.

#include <gmock/gmock.h>
#include <signal.h>

#include <filesystem>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/torch/allocated_bytes_internal.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_predictor.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"

namespace manta {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr int64_t kGlobalRows = 12;

torch::nn::Sequential sharded_layers(int64_t outputs = 1) {
  torch::manual_seed(1);
  torch::nn::Sequential layers(torch::nn::Linear(3, 5), torch::nn::BatchNorm1d(5),
                               torch::nn::Tanh(), torch::nn::Linear(5, outputs));
  layers->register_parameter("nothing", torch::empty({0}));
  return layers;
}

// The loss uses no batch statistics, which would differ between workers.
void train_layers(const Json& config) {
  auto context = train::get_context();
  auto model =
      train::prepare_model(sharded_layers(), {.sharded = config.at("sharded").get<bool>()});
  model->eval();
  torch::optim::AdamW optimizer(model->parameters(), torch::optim::AdamWOptions(1e-2));
  int64_t step = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
    step = saved.get("step");
  }
  auto save = [&] {
    train::report({{"step", step}},
                  TorchCheckpoint::from_model(model, optimizer).set("step", step));
  };
  for (const int64_t begin = step; step < config.at("until"); ++step) {
    if (step > begin && step % config.value("every", 1000) == 0) save();
    if (step == config.value("kill_at", -1) && context.attempt == 0 && context.world_rank == 1)
      ::raise(SIGKILL);
    torch::manual_seed(100 + step);
    torch::Tensor inputs = torch::randn({kGlobalRows, 3});
    int64_t rows = kGlobalRows / context.world_size;
    torch::Tensor mine =
        inputs.slice(0, context.world_rank * rows, (context.world_rank + 1) * rows);
    optimizer.zero_grad();
    torch::mse_loss(model->forward(mine), mine.sum(1, true)).backward();
    model->clip_grad_norm_(0.5);
    optimizer.step();
  }
  save();
}

class ShardedTrainer : public testing::Test {
 protected:
  TorchTrainerOptions options(int workers, TrainLoop loop, const Json& config,
                              const Checkpoint& from = {}) {
    TorchTrainerOptions options;
    options.train_loop_per_worker = loop;
    options.train_loop_config = config;
    options.scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.25}};
    options.run_config = {.storage_path = folder_.path(), .verbose = false};
    options.run_config.name = "run-" + std::to_string(runs_++);
    options.resume_from_checkpoint = from;
    return options;
  }
  Result run(int workers, bool sharded, int until, const Checkpoint& from = {}) {
    Json config = {{"sharded", sharded}, {"until", until}};
    return TorchTrainer(options(workers, train_layers, config, from)).fit();
  }
  static void expect_same(const Checkpoint& got, const Checkpoint& expected) {
    std::map<std::string, torch::Tensor> tensors;
    TorchCheckpoint one(got), two(expected);
    for (const auto& item : one.tensors()) tensors[item.name] = item.tensor;
    EXPECT_EQ(tensors.size(), two.tensors().size());
    for (const auto& item : two.tensors()) {
      EXPECT_TRUE(torch::allclose(tensors.at(item.name), item.tensor, 1e-5, 1e-5)) << item.name;
    }
  }
  TemporaryFolder folder_;
  int runs_ = 0;
};

// A worker takes its part of the shares, one tensor at a time, and keeps nothing else.
TEST_F(ShardedTrainer, LoadingMakesNoWholeCopyOfTheModel) {
  Checkpoint split = run(2, true, 1).checkpoint;
  torch::nn::Sequential model = sharded_layers();
  int64_t largest = 0;
  for (const torch::Tensor& tensor : model->parameters()) {
    largest = std::max(largest, static_cast<int64_t>(tensor.nbytes()));
  }
  TorchCheckpoint saved(split);
  auto bytes = std::make_shared<AllocatedBytes>();
  std::vector<std::string> loaded;
  {
    c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, bytes);
    loaded = saved.load_model(model).loaded;
  }
  EXPECT_EQ(bytes->now, 0);
  EXPECT_LE(bytes->peak, largest + 64);  // allocations are rounded up
  std::vector<std::string> names;
  for (const NamedTensor& item : saved.tensors()) names.push_back(item.name);
  EXPECT_THAT(loaded, testing::UnorderedElementsAreArray(names));
}

TEST_F(ShardedTrainer, AnyNumberOfWorkersTakesOver) {
  Result alone = run(1, false, 8);
  Result split = run(2, true, 4);
  EXPECT_THAT(split.checkpoint.files(),
              UnorderedElementsAre("model.safetensors", "model.shard-0-of-2.safetensors",
                                   "model.shard-1-of-2.safetensors", "optimizer.safetensors",
                                   "optimizer.shard-0-of-2.safetensors",
                                   "optimizer.shard-1-of-2.safetensors", "state.json"));
  expect_same(run(3, true, 8, split.checkpoint).checkpoint, alone.checkpoint);
  expect_same(run(2, false, 8, split.checkpoint).checkpoint, alone.checkpoint);
  Result copied = run(2, false, 4);
  expect_same(run(4, true, 8, copied.checkpoint).checkpoint, alone.checkpoint);

  auto predictor = TorchPredictor::from_checkpoint(split.checkpoint, sharded_layers());
  EXPECT_EQ(predictor.predict(torch::ones({2, 3})).sizes(), torch::IntArrayRef({2, 1}));
  torch::nn::Sequential other(torch::nn::Linear(3, 4));
  EXPECT_THAT(message_of([&] { TorchCheckpoint(split.checkpoint).load_model(other); }),
              testing::AllOf(HasSubstr("0.weight: [5, 3] in the checkpoint, [4, 3] in the model"),
                             HasSubstr("not in the model: 3.bias")));
}

TEST_F(ShardedTrainer, GoesOnEqualAfterAWorkerWasKilled) {
  Json config = {{"sharded", true}, {"until", 8}, {"every", 3}, {"kill_at", 5}};
  auto killed = options(2, train_layers, config);
  killed.run_config.failure_config.max_failures = 1;
  Result result = TorchTrainer(killed).fit();
  EXPECT_EQ(result.metrics_history.size(), 3u);
  expect_same(result.checkpoint, run(1, false, 8).checkpoint);
}

// Nothing could go on from such a checkpoint; the one committed before stays the latest, even if no
// other is kept.
TEST_F(ShardedTrainer, ACheckpointThatNotEveryRankGivesIsRefused) {
  auto loop = [](const Json& config) {
    auto model = train::prepare_model(sharded_layers(), {.sharded = true});
    torch::optim::AdamW optimizer(model->parameters());
    train::report({{"n", 0}}, TorchCheckpoint::from_model(model, optimizer).set("step", 0));
    if (train::get_context().world_rank == config.at("giver")) {
      train::report({{"n", 1}}, TorchCheckpoint::from_model(model, optimizer).set("step", 1));
    } else {
      train::report({{"n", 1}});
    }
    train::report({{"n", 2}});
  };
  for (int giver : {0, 1}) {
    auto some = options(2, loop, {{"giver", giver}});
    // The second checkpoint is reported when the first is committed.
    some.run_config.checkpoint_config = {.num_to_keep = 1, .max_in_flight = 1};
    some.run_config.failure_config.max_failures = -1;  // it would happen again
    EXPECT_THAT(
        message_of([&] { TorchTrainer(some).fit(); }),
        HasSubstr(manta::str("the checkpoint of report 1 needs a part of every rank, as that of a ",
                             "sharded model does, but only rank ", giver, " gave one, not rank ",
                             1 - giver)));
    auto run = std::filesystem::path(folder_.path()) / some.run_config.name;
    EXPECT_FALSE(std::filesystem::exists(run / "checkpoint_000001"));
    torch::nn::Sequential model = sharded_layers();
    TorchCheckpoint(Checkpoint::from_directory(run / "checkpoint_000000")).load_model(model);
  }
}

TEST_F(ShardedTrainer, WhatWasLoadedIsWrittenAsAWhole) {
  Checkpoint split = run(2, true, 4).checkpoint;
  auto loop = [](const Json& config) {
    TorchCheckpoint saved(train::get_checkpoint());
    saved.set("again", true);
    if (config.at("all") || train::get_context().world_rank == 0) {
      train::report({{"n", 0}}, saved);
    } else {
      train::report({{"n", 0}});
    }
  };
  for (int workers : {1, 2}) {
    for (bool all : {true, false}) {
      Result again = TorchTrainer(options(workers, loop, {{"all", all}}, split)).fit();
      EXPECT_THAT(again.checkpoint.files(),
                  UnorderedElementsAre("model.safetensors", "optimizer.safetensors", "state.json"));
      EXPECT_EQ(TorchCheckpoint(again.checkpoint).get("again"), true);
      expect_same(again.checkpoint, split);
      expect_same(run(2, true, 6, again.checkpoint).checkpoint, run(2, true, 6, split).checkpoint);
    }
  }
}

// Loads everything but a changed head, from and into models that are split or not.
TEST_F(ShardedTrainer, WhatFitsIsLoaded) {
  auto loop = [](const Json& config) {
    auto model = train::prepare_model(sharded_layers(2), {.sharded = config.at("sharded")});
    TorchCheckpoint saved(train::get_checkpoint());
    std::string strict = message_of([&] { saved.load_model(model); });
    LoadReport report = saved.load_model(model, {.strict = false});
    train::report({{"strict", strict},
                   {"loaded", report.loaded},
                   {"other_shape", report.other_shape},
                   {"complete", report.complete()}},
                  TorchCheckpoint::from_model(model));
  };
  for (bool from_sharded : {true, false}) {
    for (bool sharded : {true, false}) {
      SCOPED_TRACE(manta::str(from_sharded, sharded));
      Checkpoint from = run(2, from_sharded, 2).checkpoint;
      Result result = TorchTrainer(options(2, loop, {{"sharded", sharded}}, from)).fit();
      EXPECT_THAT(result.metrics.at("strict").get<std::string>(),
                  HasSubstr("3.weight: [1, 5] in the checkpoint, [2, 5] in the model"));
      EXPECT_THAT(result.metrics.at("loaded").get<std::vector<std::string>>(),
                  UnorderedElementsAre("nothing", "0.weight", "0.bias", "1.weight", "1.bias",
                                       "1.running_mean", "1.running_var", "1.num_batches_tracked"));
      EXPECT_THAT(result.metrics.at("other_shape").get<std::vector<std::string>>(),
                  UnorderedElementsAre("3.weight", "3.bias"));
      EXPECT_EQ(result.metrics.at("complete"), false);
      torch::nn::Sequential got = sharded_layers(2), expected = sharded_layers();
      TorchCheckpoint(result.checkpoint).load_model(got);
      TorchCheckpoint(from).load_model(expected);
      for (const char* name : {"0.weight", "0.bias", "1.weight", "1.bias"}) {
        EXPECT_TRUE(torch::equal(got->named_parameters()[name], expected->named_parameters()[name]))
            << name;
      }
    }
  }
}

}  // namespace
}  // namespace manta
