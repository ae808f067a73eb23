// The earlier style of Ray Train: workers that are started once, functions that run on all of them,
// and what each worker returned. The program learns y = 5x + 10, then looks at what was learned
// with a second function on the same workers.
//
//   earlier_style [--workers 2]
//
// Prints the validation loss of each worker, and the line. `--workers 0` runs it in this process,
// for a debugger.

#include <manta/manta.h>
#include <manta/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace manta;

std::map<std::string, Dataset> get_datasets(double a = 5, double b = 10, int64_t size = 1000,
                                            double split = 0.8) {
  std::vector<Json> items;
  for (int64_t i = 0; i < size; ++i) {
    double x = static_cast<double>(i) / static_cast<double>(size);
    items.push_back({{"x", x}, {"y", a * x + b}});
  }
  Dataset dataset = data::from_items(items);
  auto split_index = static_cast<int64_t>(static_cast<double>(dataset.count()) * split);
  auto parts = dataset.random_shuffle({.seed = 1}).split_at_indices({split_index});
  return {{"train", parts[0].repeat().window_shuffle({.seed = 1})},
          {"validation", parts[1].repeat()}};
}

// Returns the loss of each epoch since the workers were started, on this worker's part of the
// validation set.
std::vector<double> train_func(const Json& config) {
  train::seed_all(1);
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), config.value("lr", 1e-1));
  if (auto checkpoint = train::get_checkpoint())  // after a failure
    TorchCheckpoint(checkpoint).load_model(model);
  ToTorchOptions pairs{.label_column = "y",
                       .feature_columns = {"x"},
                       .label_column_dtype = torch::kFloat32,
                       .feature_column_dtype = torch::kFloat32,
                       .batch_size = config.at("batch_size")};
  auto train_epochs = train::get_dataset_shard("train").iter_epochs(config.value("epochs", 3));
  auto validation_epochs = train::get_dataset_shard("validation").iter_epochs();
  std::vector<double> results;
  while (auto epoch = train_epochs.next()) {
    for (auto& [x, y] : to_torch(*epoch, pairs)) {
      auto loss = torch::mse_loss(model->forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
    }
    torch::NoGradGuard no_gradients;
    double loss = 0, batches = 0;
    for (auto& [x, y] : to_torch(*validation_epochs.next(), pairs)) {
      loss += torch::mse_loss(model->forward(x), y).item<double>();
      ++batches;
    }
    results.push_back(loss / batches);
    train::report({{"epoch", epoch->number()}, {"loss", results.back()}},
                  TorchCheckpoint::from_model(model));
  }
  return results;
}

// Reads the line from the checkpoint that `run` was given.
std::pair<double, double> learned() {
  torch::nn::Linear model(1, 1);
  TorchCheckpoint(train::get_checkpoint()).load_model(model);
  return {model->weight.item<double>(), model->bias.item<double>()};
}

int main(int argc, char** argv) try {
  init(argc, argv);
  int workers = 2;
  CLI::App app("Learns a line on workers that stay.");
  app.add_option("--workers", workers);
  CLI11_PARSE(app, argc, argv);
  auto datasets = get_datasets();
  Trainer trainer("torch", {.num_workers = workers, .resources_per_worker = {.cpus = 0.5}});
  Json config = {{"lr", 1e-1}, {"batch_size", 4}, {"epochs", 3}};
  trainer.start();
  auto results = trainer.run(train_func, config,
                             {.dataset = datasets,
                              .callbacks = {std::make_shared<JsonLoggerCallback>(),
                                            std::make_shared<TBXLoggerCallback>()}});
  for (const auto& losses : results) std::cout << "loss " << losses.back() << "\n";
  auto lines = trainer.run(learned, {}, {.checkpoint = trainer.latest_run().checkpoint});
  trainer.shutdown();
  std::cout << "y = " << lines[0].first << " x + " << lines[0].second << std::endl;
} catch (const Error& error) {
  std::cerr << "earlier_style: " << error.what() << std::endl;
  return 1;
}
