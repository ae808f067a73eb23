// Learns y = 5x + 10 from rows in memory, on two workers: a data set that is split, shuffled anew
// in each epoch and repeated, and a validation set beside it.
//
//   linear_regression [--epochs 3] [--workers 2] [--batch 4]
//
// Prints a line for each epoch and the line that was learned.

#include <manta/manta.h>
#include <manta/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace manta;

std::pair<Dataset, Dataset> get_datasets(double a, double b, int64_t size, double split) {
  std::vector<Json> items;
  for (int64_t i = 0; i < size; ++i) {
    double x = static_cast<double>(i) / static_cast<double>(size);
    items.push_back({{"x", x}, {"y", a * x + b}});
  }
  Dataset dataset = data::from_items(items);
  auto split_index = static_cast<int64_t>(static_cast<double>(dataset.count()) * split);
  auto parts = dataset.random_shuffle({.seed = 1}).split_at_indices({split_index});
  return {parts[0].repeat().window_shuffle({.seed = 1}), parts[1].repeat()};
}

// The mean over the rows of both workers: each has a part of them.
double mean_loss(const std::vector<double>& sums) {
  auto total = torch::tensor(sums, torch::kFloat64);
  std::vector<torch::Tensor> tensors = {total};
  train::get_process_group()->allreduce(tensors)->wait();
  return total[0].item<double>() / total[1].item<double>();
}

void train_loop(const Json& config) {
  torch::manual_seed(1);
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), config.at("lr").get<double>());
  if (auto checkpoint = train::get_checkpoint()) {  // after a failure
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
  }
  ToTorchOptions pairs{.label_column = "y",
                       .feature_columns = {"x"},
                       .label_column_dtype = torch::kFloat32,
                       .feature_column_dtype = torch::kFloat32,
                       .batch_size = config.at("batch_size")};
  auto epochs = train::get_dataset_shard("train").iter_epochs(config.at("epochs"));
  auto validation = train::get_dataset_shard("validation").iter_epochs();
  while (auto epoch = epochs.next()) {
    for (auto& [x, y] : to_torch(*epoch, pairs)) {
      auto loss = torch::mse_loss(model->forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    torch::NoGradGuard no_gradients;
    double loss = 0, rows = 0;
    for (auto& [x, y] : to_torch(*validation.next(), pairs)) {
      auto of_batch = torch::mse_loss(model->forward(x), y, torch::Reduction::Sum);
      loss += of_batch.item<double>();
      rows += static_cast<double>(y.size(0));
    }
    train::report({{"epoch", epoch->number()}, {"validation_loss", mean_loss({loss, rows})}},
                  TorchCheckpoint::from_model(model, optimizer));
  }
}

int main(int argc, char** argv) try {
  init(argc, argv);
  int epochs = 3, workers = 2, batch_size = 4;
  CLI::App app("Learns a line from rows in memory.");
  app.add_option("--epochs", epochs);
  app.add_option("--workers", workers);
  app.add_option("--batch", batch_size);
  CLI11_PARSE(app, argc, argv);
  auto [train_set, validation_set] = get_datasets(5, 10, 1000, 0.8);
  TorchTrainer trainer(
      {.train_loop_per_worker = train_loop,
       .train_loop_config = {{"lr", 1e-1}, {"batch_size", batch_size}, {"epochs", epochs}},
       .scaling_config = {.num_workers = workers, .resources_per_worker = {.cpus = 0.5}},
       .run_config = {.failure_config = {.max_failures = 3}},
       .datasets = {{"train", train_set}, {"validation", validation_set}}});
  Result result = trainer.fit();
  for (const Json& metrics : result.metrics_history) {
    std::cout << "epoch " << metrics.at("epoch") << ": validation loss "
              << metrics.at("validation_loss") << "\n";
  }
  torch::nn::Linear model(1, 1);
  TorchCheckpoint(result.checkpoint).load_model(model);
  std::cout << "y = " << model->weight.item<double>() << " x + " << model->bias.item<double>()
            << ", from " << result.rows.at("train") << " rows\n";
} catch (const Error& error) {
  std::cerr << "linear_regression: " << error.what() << "\n";
  return 1;
}
