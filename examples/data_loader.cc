// A PyTorch data set: prepare_data_loader gives each worker its part of it, in a new order in each
// epoch.
//
//   data_loader [--workers 2] [--epochs 10]
//
// Prints the loss of the last epoch.

#include <manta/manta.h>
#include <manta/torch.h>
#include <torch/data/datasets/base.h>
#include <torch/data/datasets/map.h>
#include <torch/data/transforms/stack.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace manta;

// Rows of ten numbers, with their sum.
struct Sums : torch::data::datasets::Dataset<Sums> {
  torch::data::Example<> get(size_t row) override {
    torch::Tensor numbers = torch::cos(torch::arange(1.0F, 11.0F) * static_cast<double>(row));
    return {numbers, numbers.sum(0, true)};
  }
  std::optional<size_t> size() const override { return 1000; }
};

void train_func(const Json& config) {
  train::seed_all(1);
  auto model = train::prepare_model(torch::nn::Linear(10, 1));
  auto train_loader = train::prepare_data_loader(Sums().map(torch::data::transforms::Stack<>()),
                                                 {.batch_size = 32});
  torch::optim::SGD optimizer(model->parameters(), 0.05);
  for (int epoch = 0; epoch < config.at("epochs"); ++epoch) {
    train_loader.set_epoch(epoch);
    torch::Tensor loss;
    for (auto& batch : train_loader) {
      optimizer.zero_grad();
      loss = torch::mse_loss(model->forward(batch.data), batch.target);
      loss.backward();
      optimizer.step();
    }
    train::report({{"loss", loss.item<double>()}});
  }
}

int main(int argc, char** argv) try {
  init(argc, argv);
  int workers = 2, epochs = 10;
  CLI::App app("Trains on a data set of PyTorch's own kind.");
  app.add_option("--workers", workers);
  app.add_option("--epochs", epochs);
  CLI11_PARSE(app, argc, argv);
  TorchTrainer trainer(
      {.train_loop_per_worker = train_func,
       .train_loop_config = {{"epochs", epochs}},
       .scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.5}}});
  Result result = trainer.fit();
  double loss = result.metrics.at("loss");
  std::cout << workers << " workers: " << (loss < 0.05 ? "learned" : "did not learn") << ", loss "
            << loss << " after " << result.metrics_history.size() << " epochs" << std::endl;
} catch (const Error& error) {
  std::cerr << "data_loader: " << error.what() << std::endl;
  return 1;
}
