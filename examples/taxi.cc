// Learns which taxi trips get a tip of over 20%, on two workers, and tries the model on trips that
// it has not seen.
//
//   taxi [--epochs 3] [--workers 2] [--batch 64] [--restore <run folder>] [file.parquet]
//
// Without a file it makes up a million trips (once; they stay in the temporary folder). Prints a
// line for each epoch, and loss, accuracy and AUC of the trips that were held out. If the program
// is killed, --restore goes on with its run, whose folder it had named.

#include <arrow/api.h>
#include <manta/manta.h>
#include <manta/torch.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>

#include "taxi_data.h"

using namespace manta;

const std::vector<std::string> kFeatures = {"passenger_count", "trip_distance", "fare_amount",
                                            "trip_duration",   "hour",          "day_of_week"};

Dataset load_dataset(const std::string& path) {
  return data::read_parquet(
             path, {.columns = {"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount",
                                "passenger_count", "trip_distance", "fare_amount"}})
      .drop_na()
      .filter(col("passenger_count") <= 4 && col("trip_distance") < 100 &&
              col("fare_amount") < 1000)
      .with_column("trip_duration",
                   seconds_between(col("tpep_pickup_datetime"), col("tpep_dropoff_datetime")))
      .filter(col("trip_duration") < 4 * 60 * 60)
      .with_column("hour", hour(col("tpep_pickup_datetime")))
      .with_column("day_of_week", day_of_week(col("tpep_pickup_datetime")))
      .with_column("is_big_tip", col("tip_amount") > 0.2 * col("fare_amount"))
      .drop_columns({"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount"});
}

struct FarePredictorImpl : torch::nn::Module {
  FarePredictorImpl()
      : layers(register_module(
            "layers", torch::nn::Sequential(torch::nn::Linear(6, 256), torch::nn::BatchNorm1d(256),
                                            torch::nn::ReLU(), torch::nn::Linear(256, 16),
                                            torch::nn::BatchNorm1d(16), torch::nn::ReLU(),
                                            torch::nn::Linear(16, 1), torch::nn::Sigmoid()))) {}
  torch::Tensor forward(torch::Tensor features) { return layers->forward(features); }

  torch::nn::Sequential layers;
};
TORCH_MODULE(FarePredictor);

void train_loop_per_worker(const Json& config) {
  torch::manual_seed(1);  // the same first weights and the same order of rows: the same result
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(FarePredictor());
  torch::optim::Adam optimizer(model->parameters(), config.value("lr", 1e-2));
  if (auto checkpoint = train::get_checkpoint()) {  // after a failure
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
  }
  for (int64_t epoch = shard.epoch(); epoch < config.value("num_epochs", 3); ++epoch) {
    double loss = 0;
    int64_t steps = 0;
    for (auto& batch : iter_torch_batches(
             shard, {.batch_size = config.value("batch_size", 32), .dtypes = torch::kFloat32})) {
      auto output = model->forward(batch.columns(kFeatures));
      auto batch_loss = torch::smooth_l1_loss(output, batch["is_big_tip"].unsqueeze(1));
      optimizer.zero_grad();
      batch_loss.backward();  // gradients are averaged over the workers here
      optimizer.step();
      loss += batch_loss.item<double>();
      ++steps;
    }
    train::report({{"epoch", epoch}, {"loss", loss / static_cast<double>(steps)}},
                  TorchCheckpoint::from_model(model, optimizer));
  }
}

struct Quality {
  double loss = 0, accuracy = 0, auc = 0;
  int64_t rows = 0;
};

// AUC is the chance that a trip with a big tip gets a higher prediction than one without.
Quality evaluate(const arrow::Table& table) {
  std::vector<std::pair<float, bool>> rows;
  auto combined = table.CombineChunksToBatch().ValueOrDie();
  auto labels =
      std::static_pointer_cast<arrow::BooleanArray>(combined->GetColumnByName("is_big_tip"));
  auto scores =
      std::static_pointer_cast<arrow::FloatArray>(combined->GetColumnByName("predictions"));
  Quality quality;
  for (int64_t i = 0; i < combined->num_rows(); ++i) {
    float score = scores->Value(i);
    bool label = labels->Value(i);
    float error = std::abs(score - static_cast<float>(label));
    quality.loss += error < 1 ? 0.5 * error * error : error - 0.5;
    quality.accuracy += (score > 0.5f) == label;
    rows.emplace_back(score, label);
  }
  std::sort(rows.begin(), rows.end());
  double positives = 0, rank_sum = 0;
  for (size_t i = 0; i < rows.size();) {
    size_t end = i;
    while (end < rows.size() && rows[end].first == rows[i].first) ++end;
    double rank = 0.5 * static_cast<double>(i + 1 + end);  // ties share their ranks
    for (; i < end; ++i) {
      positives += rows[i].second;
      rank_sum += rows[i].second ? rank : 0;
    }
  }
  quality.rows = combined->num_rows();
  double all = static_cast<double>(quality.rows);
  quality.loss /= all;
  quality.accuracy /= all;
  quality.auc = (rank_sum - positives * (positives + 1) / 2) / (positives * (all - positives));
  return quality;
}

std::string default_data() {
  auto path = std::filesystem::temp_directory_path() /
              ("manta-taxi-" + std::to_string(::getuid()) + ".parquet");
  if (!std::filesystem::exists(path)) {
    std::cout << "making up 1000000 taxi trips in " << path.string() << std::endl;
    write_taxi_data(path.string() + ".partial");
    std::filesystem::rename(path.string() + ".partial", path);
  }
  return path.string();
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  CLI::App app("Learns which taxi trips get a big tip");
  std::string path, restore;
  int epochs = 3, workers = 2, batch = 64;
  app.add_option("file", path, "Parquet file of yellow-taxi trips");
  app.add_option("--epochs", epochs);
  app.add_option("--workers", workers);
  app.add_option("--batch", batch, "rows for each worker and step");
  app.add_option("--restore", restore, "run folder of a program that was ended: goes on with it");
  CLI11_PARSE(app, argc, argv);
  if (path.empty()) path = default_data();

  auto [train_set, test_set] =
      load_dataset(path).train_test_split(0.1, {.shuffle = true, .seed = 1});
  TorchTrainer trainer(
      {.train_loop_per_worker = train_loop_per_worker,
       .train_loop_config = {{"lr", 1e-2}, {"num_epochs", epochs}, {"batch_size", batch}},
       .scaling_config = {.num_workers = workers},
       .run_config = {.failure_config = {.max_failures = 3}},
       .datasets = {{"train", train_set.window_shuffle({.seed = 1})}}});
  if (!restore.empty())
    trainer = TorchTrainer::restore(restore, {.train_loop_per_worker = train_loop_per_worker});
  auto begin = std::chrono::steady_clock::now();
  Result result = trainer.fit();
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();

  auto predictor = BatchPredictor::from_checkpoint(result.checkpoint, [](const Checkpoint& from) {
    return TorchPredictor::from_checkpoint(from, FarePredictor(), {.feature_columns = kFeatures});
  });
  auto predictions = predictor.predict(test_set, {.keep_columns = {"is_big_tip"}});
  Quality quality = evaluate(*predictions.to_table());
  double rows = static_cast<double>(train_set.count()) * epochs;
  std::cout << "trained on " << train_set.count() << " trips, " << epochs << " epochs, " << workers
            << " workers: " << static_cast<int64_t>(rows / seconds) << " rows/s\n"
            << "held out: " << quality.rows << " trips, loss " << quality.loss << ", accuracy "
            << quality.accuracy << ", AUC " << quality.auc << "\n"
            << "metrics:  " << result.metrics.dump() << "\n"
            << "results:  " << result.path << std::endl;
} catch (const Error& error) {
  std::cerr << "taxi: " << error.what() << std::endl;
  return 1;
}
