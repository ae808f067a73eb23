#include "taxi_figures.h"

#include <arrow/api.h>
#include <malloc.h>
#include <manta/base/error_internal.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <functional>
#include <iostream>
#include <thread>
#include <vector>

#include "bench_clock.h"
#include "taxi_data.h"
#include "taxi_model.h"
#include "tree_pss.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kEpochs = 4;  // The first warms up.
std::shared_ptr<arrow::RecordBatch> as_it_is(const std::shared_ptr<arrow::RecordBatch>& batch) {
  return batch;
}

// Calls `epoch`, which returns how many rows it took, kEpochs times. Rows a second of all but the
// first.
template <class Epoch>
std::vector<double> rows_per_s(Epoch epoch) {
  std::vector<double> rates;
  for (int i = 0; i < kEpochs; ++i) {
    double begin = now_s();
    int64_t rows = epoch();
    double elapsed = now_s() - begin;
    if (i == 0) std::cerr << "training_bench: " << rows << " rows in an epoch" << std::endl;
    if (i > 0) rates.push_back(static_cast<double>(rows) / elapsed);
  }
  return rates;
}

// One epoch, or its first `limit` rows, over all workers.
template <class Use>
int64_t pass(const DataShard& shard, int64_t batch_size, int64_t limit, int workers, Use use) {
  int64_t rows = 0;
  for (auto& batch :
       iter_torch_batches(shard, {.batch_size = batch_size, .dtypes = torch::kFloat32})) {
    use(batch.columns(kTaxiFeatures), batch[kTaxiLabel].unsqueeze(1));
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
  auto rates = rows_per_s([&] {
    return pass(shard, config.at("batch"), config.at("rows"), train::get_context().world_size,
                [&](const torch::Tensor& features, const torch::Tensor& labels) {
                  train_step(model, optimizer, features, labels);
                });
  });
  train::report({{"rows_per_s", rates}});
}

void ingest_loop(const Json& config) {
  torch::set_num_threads(1);
  auto shard = train::get_dataset_shard("train");
  auto rates = rows_per_s([&] {
    return pass(shard, 4096, config.at("rows"), 1,
                [](const torch::Tensor&, const torch::Tensor&) {});
  });
  train::report({{"rows_per_s", rates}});
}

Json fit(TrainLoop loop, const std::string& file, int workers, const Json& config) {
  TemporaryFolder folder;
  Dataset dataset = load_taxi(file);
  if (config.at("map_batches")) dataset = dataset.map_batches(as_it_is);
  TorchTrainer trainer({.train_loop_per_worker = loop,
                        .train_loop_config = config,
                        .scaling_config = {.num_workers = workers},
                        .run_config = {.storage_path = folder.path(), .verbose = false},
                        .datasets = {{"train", dataset}}});
  return trainer.fit().metrics.at("rows_per_s");
}

// Makes processes take each step at the same time, although they exchange nothing: measures what
// waiting alone costs if cores are slowed down one at a time.
class Steps {
 public:
  explicit Steps(int processes) : processes_(processes) {
    void* memory = ::mmap(nullptr, sizeof(Count) * static_cast<size_t>(processes),
                          PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED) throw_errno("mmap");
    counts_ = static_cast<Count*>(memory);
  }
  Steps(const Steps&) = delete;
  Steps& operator=(const Steps&) = delete;
  ~Steps() { ::munmap(counts_, sizeof(Count) * static_cast<size_t>(processes_)); }

  void end(int process) {
    auto done = counts_[process].done.fetch_add(1) + 1;
    auto deadline = now_s() + 60;
    for (int other = 0; other < processes_; ++other) {
      while (counts_[other].done.load(std::memory_order_acquire) < done) {
        if (now_s() > deadline) throw Error(ErrorKind::kTimeout, "a loop in step did not arrive");
      }
    }
  }

 private:
  struct alignas(64) Count {
    std::atomic<int64_t> done;
  };
  int processes_;
  Count* counts_;
};

std::vector<double> train_bare(const std::string& file, int64_t batch_size, int64_t limit,
                               const std::function<void()>& end_step) {
  torch::set_num_threads(1);
  auto table = load_taxi(file).take(limit);
  TorchBatch all(table->CombineChunksToBatch().ValueOrDie(), torch::kFloat32);
  table.reset();
  auto features = all.columns(kTaxiFeatures);
  auto labels = all[kTaxiLabel].unsqueeze(1);
  FarePredictor model;
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  return rows_per_s([&] {
    for (int64_t i = 0; i < all.rows(); i += batch_size) {
      int64_t end = std::min(i + batch_size, all.rows());
      train_step(model, optimizer, features.slice(0, i, end), labels.slice(0, i, end));
      end_step();
    }
    return all.rows();
  });
}

// W loops at once, each over all rows: measures the machine's cores when all are busy. An epoch
// counts as W times the slowest loop, for which loops in step would have to wait.
std::vector<double> train_bare(const TaxiBench& taxi) {
  // glibc gives freed memory at the end of the heap back to the kernel, and with batches of 4,096
  // rows each step's activations lie there: page faults then take a third of the time. A user who
  // tunes such a loop keeps the memory, in this way or with another allocator.
  ::mallopt(M_TRIM_THRESHOLD, 1 << 30);
  ::mallopt(M_MMAP_THRESHOLD, 1 << 30);
  Steps steps(taxi.workers);
  auto train = [&](int process) {
    return train_bare(taxi.file, taxi.batch, taxi.rows, [&] {
      if (taxi.in_step) steps.end(process);
    });
  };
  int ends[2];
  if (::pipe(ends) != 0) throw_errno("pipe");
  for (int i = 1; i < taxi.workers; ++i) {
    pid_t pid = ::fork();
    if (pid < 0) throw_errno("fork");
    if (pid > 0) continue;
    std::vector<double> rates;
    try {
      rates = train(i);
    } catch (const std::exception& error) {
      std::cerr << error.what() << std::endl;
      ::_exit(1);
    }
    auto bytes = static_cast<ssize_t>(rates.size() * sizeof(double));
    ::_exit(::write(ends[1], rates.data(), static_cast<size_t>(bytes)) == bytes ? 0 : 1);
  }
  ::close(ends[1]);
  auto slowest = train(0);
  for (int i = 1; i < taxi.workers; ++i) {
    std::vector<double> rates(slowest.size());
    auto bytes = static_cast<ssize_t>(rates.size() * sizeof(double));
    if (::read(ends[0], rates.data(), static_cast<size_t>(bytes)) != bytes) {
      throw Error(ErrorKind::kWorkerLost, "a loop beside this one failed");
    }
    for (size_t e = 0; e < rates.size(); ++e) slowest[e] = std::min(slowest[e], rates[e]);
  }
  while (::wait(nullptr) > 0) continue;
  for (double& rate : slowest) rate *= taxi.workers;
  return slowest;
}

// Samples the memory during the run, which makes the run slower.
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
    return {{"rows_per_s", train_bare(taxi)}};
  }
  if (what == "ingest") return {{"rows_per_s", fit(ingest_loop, taxi.file, 1, config)}};
  return {{"ingest_peak_mb", ingest_peak_mb(taxi.file, config)}};
}
