// Trainer("torch"), whose workers stay between runs, and PyTorch in the driver.

#include <gmock/gmock.h>
#include <torch/nn.h>
#include <torch/optim.h>
#include <unistd.h>

#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"
#include "manta/train/session_internal.h"
#include "manta/train/trainer.h"

namespace manta {
namespace {

using testing::HasSubstr;

// Each rank begins with different weights and has different rows: all learn the same only if they
// take rank 0's weights and exchange gradients. Returns the weight and the process.
std::pair<double, int> learn_together(const Json& config) {
  auto context = train::get_context();
  torch::manual_seed(context.world_rank + 1);
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), config.value("lr", 0.1));
  for (int step = 0; step < 3; ++step) {
    auto x = torch::full({4, 1}, context.world_rank + 1.0);
    auto loss = torch::mse_loss(model->forward(x), 2 * x);
    optimizer.zero_grad();
    loss.backward();
    optimizer.step();
  }
  train::report({{"weight", model->parameters()[0].item<double>()}},
                TorchCheckpoint::from_model(model));
  return {model->parameters()[0].item<double>(), ::getpid()};
}

TEST(TorchBackendTest, WorkersThatStayFormAProcessGroupInEachRun) {
  TemporaryFolder storage;
  Trainer trainer("torch", {.num_workers = 2,
                            .resources_per_worker = {.cpus = 0.5},
                            .storage_path = storage.path(),
                            .verbose = 0});
  trainer.start();
  auto first = trainer.run(learn_together, {{"lr", 0.1}});
  auto second = trainer.run(learn_together, {{"lr", 0.1}});
  ASSERT_EQ(first.size(), 2u);
  EXPECT_EQ(first[0].first, first[1].first);
  EXPECT_EQ(first, second);  // the same processes, too
  EXPECT_NE(first[0].second, first[1].second);
  EXPECT_EQ(trainer.latest_run().metrics.at("weight"), second[0].first);
}

// The earlier style passes on the backend: of the two, only shared memory has this name for the
// CPU.
TEST(TorchBackendTest, ATrainerChoosesHowItsWorkersExchange) {
  auto backend_and_timeout = [] {
    auto group = train::get_process_group();
    return std::make_pair(group->getBackend(torch::kCPU)->getBackendName(),
                          train::Session::current("test").timeout().count());
  };
  for (const char* backend : {"shm", "gloo"}) {
    TemporaryFolder storage;
    Trainer trainer("torch", {.num_workers = 2,
                              .resources_per_worker = {.cpus = 0.5},
                              .storage_path = storage.path(),
                              .collective_timeout = std::chrono::seconds(77),
                              .torch_config = {.backend = backend},
                              .verbose = 0});
    trainer.start();
    for (const auto& [name, timeout] : trainer.run(backend_and_timeout)) {
      EXPECT_THAT(name, HasSubstr(backend));
      EXPECT_EQ(timeout, 77'000);
    }
  }
  EXPECT_THAT(message_of([] { Trainer("torch", {.torch_config = {.backend = "mpi"}}); }),
              HasSubstr("torch_config.backend must be auto, shm, gloo or nccl (was 'mpi')"));
}

TEST(TorchBackendTest, ALoopInTheDriverLearnsTheSameAsInAWorker) {
  TemporaryFolder storage;
  std::vector<double> weights;
  for (int workers : {0, 1}) {
    TorchTrainer trainer(
        {.train_loop_per_worker = [](const Json& config) { learn_together(config); },
         .scaling_config = {.num_workers = workers},
         .run_config = {.name = "run-" + std::to_string(workers),
                        .storage_path = storage.path(),
                        .verbose = 0}});
    Result result = trainer.fit();
    weights.push_back(result.metrics.at("weight"));
    EXPECT_EQ(trainer.get_checkpoints().size(), 1u);
    torch::nn::Linear model(1, 1);
    TorchCheckpoint(result.checkpoint).load_model(model);
    EXPECT_EQ(model->weight.item<double>(), weights.back());
  }
  EXPECT_EQ(weights[0], weights[1]);
}

TEST(TorchBackendTest, AnErrorOfPyTorchInTheDriverIsShort) {
  TemporaryFolder storage;
  TorchTrainer trainer({.train_loop_per_worker = [] { torch::zeros({2}).reshape({3}); },
                        .scaling_config = {.num_workers = 0},
                        .run_config = {.storage_path = storage.path(), .verbose = 0}});
  std::string message = message_of([&] { trainer.fit(); });
  EXPECT_THAT(message, HasSubstr("rank 0 failed: "));
  EXPECT_THAT(message, testing::Not(HasSubstr("Exception raised from")));
}

}  // namespace
}  // namespace manta
