// TorchTrainer under a Tuner.

#include <gmock/gmock.h>

#include "manta/base/temporary_folder_internal.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/torch_checkpoint.h"
#include "manta/torch/torch_trainer.h"
#include "manta/train/session.h"
#include "manta/tune/tuner.h"

namespace manta {
namespace {

// Fits y = 2 by gradient descent; the learning rate decides how close it gets.
void fit_a_constant(const Json& config) {
  torch::nn::Linear linear(1, 1);
  torch::nn::init::zeros_(linear->weight);
  torch::nn::init::zeros_(linear->bias);
  auto model = train::prepare_model(linear);
  torch::optim::SGD optimizer(model->parameters(), config.at("lr").get<double>());
  for (int epoch = 0; epoch < config.at("epochs"); ++epoch) {
    optimizer.zero_grad();
    auto loss = torch::mse_loss(model->forward(torch::ones({1, 1})), torch::full({1, 1}, 2.0));
    loss.backward();
    optimizer.step();
    train::report({{"loss", loss.item<double>()}}, TorchCheckpoint::from_model(model));
  }
}

TEST(TuneTorchTest, TheLoopsConfigIsTheSpace) {
  TemporaryFolder storage;
  TorchTrainer trainer({.train_loop_per_worker = fit_a_constant,
                        .train_loop_config = {{"lr", 1.0}, {"epochs", 3}},
                        .scaling_config = {.resources_per_worker = {.cpus = 0.5}}});
  Tuner tuner(trainer,
              {.param_space = {.train_loop_config = {{"lr", tune::grid_search({0.001, 0.2, 0.01})}},
                               .scaling_config = {.num_workers = tune::choice({1, 2})}},
               .tune_config = {.metric = "loss", .mode = "min", .seed = 1},
               .run_config = {.name = "t", .storage_path = storage.path(), .verbose = false}});
  ResultGrid results = tuner.fit();
  ASSERT_EQ(results.size(), 3u);
  ASSERT_EQ(results.num_errors(), 0u) << results.errors().front().what();
  Result best = results.get_best_result();
  EXPECT_EQ(best.config.at("train_loop_config").at("lr"), 0.2);
  EXPECT_EQ(best.metrics_history.size(), 3u);
  EXPECT_EQ(TorchCheckpoint(best.checkpoint).tensors().size(), 2u);
  EXPECT_EQ(Tuner::restore(storage / "t", trainer).fit().size(), 3u);
}

}  // namespace
}  // namespace manta
