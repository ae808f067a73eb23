#include "recovery_figures.h"

#include <manta/base/error_internal.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>
#include <signal.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <future>
#include <iostream>
#include <string>
#include <thread>

#include "bench_clock.h"
#include "taxi_model.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kLosses = 2;
constexpr int kLastEpochs = 2;       // After the last loss.
constexpr int kStepsBeforeLoss = 5;  // In the epoch after an attempt's first checkpoint.

using Losses = std::array<std::string, kLosses>;  // how rank 1 of each attempt is lost

struct Moment {
  double time = 0;
  pid_t pid = 0;
  std::string host;
};

// Each worker notes in its own files when something happened; a file appears when it is complete.
std::filesystem::path moment_file(const std::string& folder, const char* event, int attempt,
                                  int rank) {
  return std::filesystem::path(folder) / str(event, "-", attempt, "-", rank);
}

void tell(const std::string& folder, const char* event) {
  double time = now_s();
  auto context = train::get_context();
  auto path = moment_file(folder, event, context.attempt, context.world_rank);
  std::ofstream(path.string() + ".partial")
      << std::fixed << time << " " << ::getpid() << " " << context.node_name << "\n";
  std::filesystem::rename(path.string() + ".partial", path);
}

Moment read_moment(const std::string& folder, const char* event, int attempt, int rank) {
  Moment moment;
  std::ifstream(moment_file(folder, event, attempt, rank)) >> moment.time >> moment.pid >>
      moment.host;
  return moment;
}

// Makes a checkpoint after each epoch. Trains until a worker is lost; in the last attempt, a little
// longer.
void lost_loop(const Json& config) {
  torch::set_num_threads(1);
  std::string folder = config.at("folder");
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(FarePredictor());
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
  }
  int64_t first = shard.epoch();
  int64_t end = train::get_context().attempt == kLosses ? first + kLastEpochs : first + 1000;
  for (int64_t epoch = first; epoch < end; ++epoch) {
    int steps = 0;
    for (auto& batch : iter_torch_batches(shard, {.batch_size = 1024, .dtypes = torch::kFloat32})) {
      train_step(model, optimizer, batch.columns(kTaxiFeatures), batch[kTaxiLabel].unsqueeze(1));
      ++steps;
      if (epoch == first && steps == 1) tell(folder, "step");
      if (epoch == first + 1 && steps == kStepsBeforeLoss) tell(folder, "trains");
    }
    train::report({{"epoch", epoch}}, TorchCheckpoint::from_model(model, optimizer));
  }
}

// In each attempt but the last, ends rank 1, or its host, when both ranks train. Returns the times.
std::vector<double> lose_rank_1(const std::string& folder, const Losses& losses) {
  std::vector<double> times;
  for (int attempt = 0; attempt < kLosses; ++attempt) {
    double deadline = now_s() + 60;
    while (!std::filesystem::exists(moment_file(folder, "trains", attempt, 0)) ||
           !std::filesystem::exists(moment_file(folder, "trains", attempt, 1))) {
      if (now_s() > deadline) throw Error(ErrorKind::kTimeout, "no training to disturb after 60 s");
      std::this_thread::sleep_for(2ms);
    }
    Moment moment = read_moment(folder, "trains", attempt, 1);
    times.push_back(now_s());
    const std::string& how = losses[static_cast<size_t>(attempt)];
    if (how == "kill") {
      ::kill(moment.pid, SIGKILL);
    } else {
      std::cout << "do " << how << " " << moment.host.substr(1) << std::endl;  // see on_hosts.cc
    }
  }
  return times;
}

}  // namespace

Json measure_recovery(const std::string& file, const std::string& what) {
  TemporaryFolder folder;
  Losses losses = {what, what};
  if (what == "cut") losses.back() = "cut-to";
  auto lost = std::async(std::launch::async, lose_rank_1, folder.path(), losses);
  RunConfig run{.storage_path = folder.path(), .verbose = false};
  run.failure_config.max_failures = kLosses;
  run.checkpoint_config.num_to_keep = 1;
  TorchTrainer trainer(
      {.train_loop_per_worker = lost_loop,
       .train_loop_config = {{"folder", folder.path()}},
       // On several hosts, each worker on another host.
       .scaling_config = {.num_workers = 2, .placement_strategy = Placement::kSpread},
       .run_config = run,
       .datasets = {{"train", load_taxi(file)}}});
  trainer.fit();
  Json times = Json::array();
  int attempt = 0;
  for (double time : lost.get()) {
    ++attempt;
    double again = std::max(read_moment(folder.path(), "step", attempt, 0).time,
                            read_moment(folder.path(), "step", attempt, 1).time);
    times.push_back(again - time);
  }
  return {{"recovery_s", times}};
}
