#include "loop_figures.h"

#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <vector>

#include "bench_clock.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kLoopReports = 4000;
constexpr int kCommits = 8;
constexpr double kWorkSeconds = 0.001;  // of a step on an idle processor: 1,000 reports a second
constexpr int kRuns = 3;                // with trackers, and as many without

double median(std::vector<double> values) {
  std::nth_element(values.begin(), values.begin() + values.size() / 2, values.end());
  return values[values.size() / 2];
}

// Stands for a step: a fixed amount of work, however long it takes on a busy processor.
uint64_t work(int64_t rounds) {
  uint64_t value = 1;
  for (int64_t i = 0; i < rounds; ++i) value = value * 6364136223846793005u + 1442695040888963407u;
  return value;
}

// Measures the fastest of many steps, before anything else runs.
int64_t rounds_of_a_step() {
  constexpr int64_t kRounds = 1'000'000;
  double best = 1e9;
  volatile uint64_t kept = 0;
  for (int i = 0; i < 300; ++i) {
    double begin = now_s();
    kept = kept + work(kRounds);
    best = std::min(best, now_s() - begin);
  }
  return static_cast<int64_t>(static_cast<double>(kRounds) * kWorkSeconds / best);
}

void report_loop(const Json& config) {
  int64_t rounds = config.at("rounds");
  volatile uint64_t kept = 0;
  std::vector<double> holds;
  double began = now_s();
  for (int i = 0; i < kLoopReports; ++i) {
    kept = kept + work(rounds);
    double begin = now_s();
    train::report({{"loss", 1.0 / (1 + i)}, {"step", i}, {"accuracy", 0.5}});
    holds.push_back(now_s() - begin);
  }
  double seconds = now_s() - began;
  train::report({{"report_us", 1e6 * median(holds)}, {"steps_per_s", kLoopReports / seconds}});
}

// Makes as many allreduces as a group can in a given time; all ranks begin each one together.
void allreduce_loop(const Json& config) {
  auto group = train::get_process_group();
  int64_t bytes = config.at("bytes");
  int rounds = bytes > 1'000'000 ? 20 : 1000;
  std::vector<torch::Tensor> tensors = {torch::ones({bytes / 4})};
  torch::Tensor copy = torch::ones_like(tensors[0]);
  std::vector<double> sums, copies;
  for (int i = 0; i < rounds + rounds / 5; ++i) {
    tensors[0].fill_(1);
    group->barrier()->wait();
    double begin = now_s();
    group->allreduce(tensors)->wait();
    double summed = now_s();
    group->barrier()->wait();
    double again = now_s();
    std::memcpy(copy.data_ptr(), tensors[0].data_ptr(), static_cast<size_t>(bytes));
    std::memcpy(tensors[0].data_ptr(), copy.data_ptr(), static_cast<size_t>(bytes));
    double copied = now_s();
    if (i < rounds / 5) continue;  // warms up
    sums.push_back(summed - begin);
    copies.push_back(copied - again);
  }
  train::report({{"allreduce_s", median(sums)}, {"two_copies_s", median(copies)}});
}

// A report waits for the checkpoint before it, and the loop does nothing else. So each report takes
// as long as a checkpoint, from the copy of the model to its commit.
void commit_loop() {
  torch::set_num_threads(1);
  torch::nn::ParameterList model;
  for (int i = 0; i < 16; ++i) model->append(torch::rand({4096, 4096}));  // 64 MiB each
  std::vector<double> times;
  for (int i = 0; i < kCommits; ++i) {
    double begin = now_s();
    train::report({{"commits", times}}, TorchCheckpoint::from_model(model));
    if (i > 1) times.push_back(now_s() - begin);  // the first report has no checkpoint to wait for
  }
  train::report({{"commits", times}});
}

std::vector<std::shared_ptr<Callback>> trackers() {
  return {std::make_shared<JsonLoggerCallback>(), std::make_shared<CSVLoggerCallback>(),
          std::make_shared<TBXLoggerCallback>()};
}

// Runs with and without trackers take turns, so that both have the same machine.
Json report_figures(const ScalingConfig& scaling, RunConfig run) {
  Json figures = Json::object();
  Json config = {{"rounds", rounds_of_a_step()}};
  for (int i = 0; i < 2 * kRuns; ++i) {
    bool tracked = i % 2 == 1;
    run.callbacks = tracked ? trackers() : std::vector<std::shared_ptr<Callback>>();
    TorchTrainer trainer({.train_loop_per_worker = report_loop,
                          .train_loop_config = config,
                          .scaling_config = scaling,
                          .run_config = run});
    Json metrics = trainer.fit().metrics;
    for (const char* name : {"report_us", "steps_per_s"})
      figures[std::string(tracked ? "tracked_" : "") + name].push_back(metrics.at(name));
  }
  return figures;
}

}  // namespace

Json loop_figures(const std::string& what, const LoopBench& bench) {
  TemporaryFolder folder;
  RunConfig run{.storage_path = folder.path(), .verbose = false};
  ScalingConfig scaling{.num_workers = bench.workers};
  if (what == "report") return report_figures(scaling, run);
  if (what == "commit") {
    run.checkpoint_config = {.num_to_keep = 1, .max_in_flight = 1, .fsync = bench.fsync};
    TorchTrainer trainer({.train_loop_per_worker = commit_loop, .run_config = run});
    return {{"checkpoint_s", trainer.fit().metrics.at("commits")}};
  }
  scaling.placement_strategy = Placement::kSpread;
  TorchTrainer trainer({.train_loop_per_worker = allreduce_loop,
                        .train_loop_config = {{"bytes", bench.bytes}},
                        .scaling_config = scaling,
                        .run_config = run,
                        .torch_config = {.backend = bench.backend}});
  Json metrics = trainer.fit().metrics;
  return {{"allreduce_s", metrics.at("allreduce_s")}, {"two_copies_s", metrics.at("two_copies_s")}};
}
