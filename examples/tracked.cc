// A linear regression whose run is logged for TensorBoard, as JSON lines, and, if there is a
// server, to MLflow.
//
//   tracked [--mlflow http://127.0.0.1:5000] [--storage folder]
//
// Prints the last metrics and where to look at the run. To have a server: `mlflow server`.

#include <manta/manta.h>
#include <manta/torch.h>

#include <CLI/CLI.hpp>
#include <iostream>

using namespace manta;

void train_func(const Json& config) {
  train::seed_all(1);  // the same first weights in each run
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), config.at("lr").get<double>());
  for (int64_t epoch = shard.epoch(); epoch < config.at("epochs"); ++epoch) {
    double loss_of_epoch = 0;
    std::vector<double> errors;
    for (auto& batch : iter_torch_batches(shard, {.batch_size = 16, .dtypes = torch::kFloat32})) {
      auto error = model->forward(batch.columns({"x"})) - batch["y"].unsqueeze(1);
      auto loss = error.square().mean();
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      loss_of_epoch = loss.item<double>();
      for (int64_t row = 0; row < error.size(0); ++row)
        errors.push_back(error[row][0].item<double>());
    }
    train::report({{"epoch", epoch},
                   {"loss", loss_of_epoch},
                   {"errors", train::histogram(errors)},
                   {"note", train::text("**epoch** " + std::to_string(epoch))}},
                  TorchCheckpoint::from_model(model, optimizer));
  }
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  CLI::App app("Trains a line, and tells trackers of it");
  std::string mlflow, storage;
  app.add_option("--mlflow", mlflow, "address of an MLflow server; without it there is none");
  app.add_option("--storage", storage, "where run folders are; default: ~/manta_results");
  CLI11_PARSE(app, argc, argv);

  Dataset points = data::range(400)
                       .with_column("x", col("id") / 400.0)
                       .with_column("y", col("id") / 200.0 + 1.0)
                       .select_columns({"x", "y"});
  std::vector<std::shared_ptr<Callback>> callbacks = {std::make_shared<TBXLoggerCallback>(),
                                                      std::make_shared<JsonLoggerCallback>()};
  if (!mlflow.empty()) {
    callbacks.push_back(std::make_shared<MLflowLoggerCallback>(MLflowLoggerOptions{
        .tracking_uri = mlflow, .experiment_name = "train_experiment", .save_artifact = true}));
  }
  TorchTrainer trainer({.train_loop_per_worker = train_func,
                        .train_loop_config = {{"lr", 0.1}, {"epochs", 5}},
                        .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
                        .run_config = {.storage_path = storage, .callbacks = callbacks},
                        .datasets = {{"train", points}}});
  Result result = trainer.fit();
  std::cout << "loss " << result.metrics.at("loss") << "\n"
            << "tensorboard --logdir " << result.path << "/tensorboard\n";
  if (!mlflow.empty()) {
    RegisteredModel model = register_model(result.checkpoint, "line");
    std::cout << "registered as " << model.name << " " << model.version << " at " << mlflow << "\n";
  }
  return 0;
} catch (const std::exception& error) {
  std::cerr << "tracked: " << error.what() << "\n";
  return 1;
}
