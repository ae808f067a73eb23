// Learns y = 3x + 1 from a table, with two workers. Change the data, the model and the loss.

#include <manta/manta.h>
#include <manta/torch.h>

#include <iostream>

using namespace manta;

// Runs in every worker.
void train_loop(const Json& config) {
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(torch::nn::Linear(1, 1));
  torch::optim::SGD optimizer(model->parameters(), config.at("lr").get<double>());
  if (auto checkpoint = train::get_checkpoint()) {  // after a failure, or with restore
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
  }
  for (int64_t epoch = shard.epoch(); epoch < config.at("epochs"); ++epoch) {
    double last_loss = 0;
    for (auto& batch : iter_torch_batches(shard, {.batch_size = 16, .dtypes = torch::kFloat32})) {
      auto loss = torch::mse_loss(model->forward(batch.columns({"x"})), batch["y"].unsqueeze(1));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      last_loss = loss.item<double>();
    }
    train::report({{"epoch", epoch}, {"loss", last_loss}},
                  TorchCheckpoint::from_model(model, optimizer));
    if (train::should_stop()) return;  // Ctrl-C: the checkpoint above is the one to go on from
  }
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  std::string results = argc > 1 ? argv[1] : "";  // where run folders are; "": ~/manta_results
  if (argc > 2 || results.starts_with("-")) {
    bool help = results == "--help";
    (help ? std::cout : std::cerr) << "usage: starter [folder of results]\n";
    return help ? 0 : 2;
  }
  Dataset points = data::range(400)  // data::read_parquet("data/*.parquet") for your own
                       .with_column("x", col("id") / 400.0)
                       .with_column("y", col("id") * 3.0 / 400.0 + 1.0)
                       .select_columns({"x", "y"});
  TorchTrainer trainer(
      {.train_loop_per_worker = train_loop,
       .train_loop_config = {{"lr", 0.2}, {"epochs", 10}},
       .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
       .run_config = {.storage_path = results, .failure_config = {.max_failures = 1}},
       .datasets = {{"train", points}}});
  Result result = trainer.fit();
  std::cout << result.metrics_history.size() << " epochs, loss " << result.metrics.at("loss")
            << ", weights in " << result.checkpoint.path() << std::endl;
} catch (const Error& error) {
  std::cerr << "starter: " << error.what() << std::endl;
  return 1;
}
