// Sharded models in runs: what one number of workers has written, another takes over.

#include <gmock/gmock.h>

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

torch::nn::Sequential sharded_layers() {
  torch::manual_seed(1);
  return torch::nn::Sequential(torch::nn::Linear(3, 5), torch::nn::BatchNorm1d(5),
                               torch::nn::Tanh(), torch::nn::Linear(5, 1));
}

// Without batch statistics in the loss: they would be each worker's own.
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
  for (; step < config.at("until"); ++step) {
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
  train::report({{"step", step}}, TorchCheckpoint::from_model(model, optimizer).set("step", step));
}

class ShardedTrainer : public testing::Test {
 protected:
  Result run(int workers, bool sharded, int until, const Checkpoint& from = {}) {
    TorchTrainerOptions options;
    options.train_loop_per_worker = train_layers;
    options.train_loop_config = {{"sharded", sharded}, {"until", until}};
    options.scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.25}};
    options.run_config = {.storage_path = folder_.path(), .verbose = false};
    options.run_config.name = "run-" + std::to_string(runs_++);
    options.resume_from_checkpoint = from;
    return TorchTrainer(options).fit();
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

// A worker takes what it needs of the shares, one tensor at a time, and keeps nothing else.
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
  EXPECT_THAT(loaded, testing::ElementsAreArray(names));
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

}  // namespace
}  // namespace manta
