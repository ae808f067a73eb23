#include "taxi_figures.h"

#include <arrow/api.h>
#include <manta/base/error_internal.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "taxi_data.h"
#include "tree_pss.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kEpochs = 4;  // The first warms up.
const std::vector<std::string> kFeatures = {"passenger_count", "trip_distance", "fare_amount",
                                            "trip_duration",   "hour",          "day_of_week"};
const std::string kLabel = "is_big_tip";

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
      .with_column(kLabel, col("tip_amount") > 0.2 * col("fare_amount"))
      .drop_columns({"tpep_pickup_datetime", "tpep_dropoff_datetime", "tip_amount"});
}

std::shared_ptr<arrow::RecordBatch> as_it_is(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
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

template <class Model>
void train_step(Model& model, torch::optim::Adam& optimizer, const torch::Tensor& features,
                const torch::Tensor& labels) {
  auto loss = torch::smooth_l1_loss(model->forward(features), labels);
  optimizer.zero_grad();
  loss.backward();
  optimizer.step();
}

// Calls `epoch`, which returns how many rows it took, kEpochs times. The median of all but the
// first, in rows a second.
template <class Epoch>
double rows_per_s(Epoch epoch) {
  std::vector<double> rates;
  for (int i = 0; i < kEpochs; ++i) {
    auto begin = std::chrono::steady_clock::now();
    int64_t rows = epoch();
    std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - begin;
    if (i == 0) std::cerr << "training_bench: " << rows << " rows in an epoch" << std::endl;
    if (i > 0) rates.push_back(static_cast<double>(rows) / elapsed.count());
  }
  std::sort(rates.begin(), rates.end());
  return rates[rates.size() / 2];
}

// One epoch, or its first `limit` rows, over all workers.
template <class Use>
int64_t pass(const DataShard& shard, int64_t batch_size, int64_t limit, int workers, Use use) {
  int64_t rows = 0;
  for (auto& batch :
       iter_torch_batches(shard, {.batch_size = batch_size, .dtypes = torch::kFloat32})) {
    use(batch.columns(kFeatures), batch[kLabel].unsqueeze(1));
    rows += batch.rows() * workers;
    if (rows >= limit) break;
  }
  return rows;
}

void train_loop(const Json& config) {
  torch::set_num_threads(1);
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(FarePredictor());
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  double rate = rows_per_s([&] {
    return pass(shard, config.at("batch"), config.at("rows"), train::get_context().world_size,
                [&](const torch::Tensor& features, const torch::Tensor& labels) {
                  train_step(model, optimizer, features, labels);
                });
  });
  train::report({{"rows_per_s", rate}});
}

void ingest_loop(const Json& config) {
  torch::set_num_threads(1);
  auto shard = train::get_dataset_shard("train");
  double rate = rows_per_s([&] {
    return pass(shard, 4096, config.at("rows"), 1,
                [](const torch::Tensor&, const torch::Tensor&) {});
  });
  train::report({{"rows_per_s", rate}});
}

double fit(TrainLoop loop, const std::string& file, int workers, const Json& config) {
  TemporaryFolder folder;
  Dataset dataset = load_dataset(file);
  if (config.at("map_batches")) dataset = dataset.map_batches(as_it_is);
  TorchTrainer trainer({.train_loop_per_worker = loop,
                        .train_loop_config = config,
                        .scaling_config = {.num_workers = workers},
                        .run_config = {.storage_path = folder.path(), .verbose = false},
                        .datasets = {{"train", dataset}}});
  return trainer.fit().metrics.at("rows_per_s");
}

double train_bare(const std::string& file, int64_t batch_size, int64_t limit) {
  torch::set_num_threads(1);
  auto table = load_dataset(file).take(limit);
  TorchBatch all(table->CombineChunksToBatch().ValueOrDie(), torch::kFloat32);
  table.reset();
  auto features = all.columns(kFeatures);
  auto labels = all[kLabel].unsqueeze(1);
  FarePredictor model;
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  return rows_per_s([&] {
    for (int64_t i = 0; i < all.rows(); i += batch_size) {
      int64_t end = std::min(i + batch_size, all.rows());
      train_step(model, optimizer, features.slice(0, i, end), labels.slice(0, i, end));
    }
    return all.rows();
  });
}

// W loops at once, each over all rows: what the machine's cores are worth beside each other just
// then. Counts the slowest, W times, as it is the one that loops in step would have to wait for.
double train_bare(const std::string& file, int64_t batch_size, int64_t limit, int workers) {
  int ends[2];
  if (::pipe(ends) != 0) throw_errno("pipe");
  for (int i = 1; i < workers; ++i) {
    pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork");
    if (pid > 0) continue;
    double rate = 0;
    try {
      rate = train_bare(file, batch_size, limit);
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      ::_exit(1);
    }
    ::_exit(::write(ends[1], &rate, sizeof(rate)) == sizeof(rate) ? 0 : 1);
  }
  ::close(ends[1]);
  double slowest = train_bare(file, batch_size, limit);
  for (int i = 1; i < workers; ++i) {
    double rate = 0;
    if (::read(ends[0], &rate, sizeof(rate)) != sizeof(rate)) {
      throw Error(ErrorKind::kWorkerLost, "a loop beside this one failed");
    }
    slowest = std::min(slowest, rate);
  }
  while (::wait(nullptr) > 0) continue;
  return workers * slowest;
}

// Sampled while it runs, which makes it slower.
double ingest_peak_mb(const std::string& file, const Json& config) {
  std::atomic<bool> done = false;
  double peak = 0;
  std::thread sampler([&] {
    while (!done) {
      peak = std::max(peak, tree_pss_mb());
      std::this_thread::sleep_for(50ms);
    }
  });
  try {
    fit(ingest_loop, file, 1, config);
  } catch (...) {
    done = true;
    sampler.join();
    throw;
  }
  done = true;
  sampler.join();
  return peak;
}

}  // namespace

Json taxi_figures(const std::string& what, const TaxiBench& taxi) {
  Json config = {{"batch", taxi.batch}, {"rows", taxi.rows}, {"map_batches", taxi.map_batches}};
  if (what == "train") return {{"rows_per_s", fit(train_loop, taxi.file, taxi.workers, config)}};
  if (what == "bare") {
    return {{"rows_per_s", train_bare(taxi.file, taxi.batch, taxi.rows, taxi.workers)}};
  }
  if (what == "ingest") return {{"rows_per_s", fit(ingest_loop, taxi.file, 1, config)}};
  return {{"ingest_peak_mb", ingest_peak_mb(taxi.file, config)}};
}
