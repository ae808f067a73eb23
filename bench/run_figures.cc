#include "run_figures.h"

#include <manta/base/error_internal.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <future>
#include <thread>
#include <vector>

using namespace manta;
using namespace std::chrono_literals;

namespace {

// The same in all processes of the machine.
double now_s() {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

double median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

void empty_loop() { train::report({{"x", 1}}); }

Json measure_fit(int64_t start_ns) {
  TemporaryFolder folder;
  auto fit = [&] {
    TorchTrainer trainer({.train_loop_per_worker = empty_loop,
                          .scaling_config = {.num_workers = 2},
                          .run_config = {.storage_path = folder.path(), .verbose = false}});
    trainer.fit();
  };
  fit();
  double cold = now_s() - 1e-9 * static_cast<double>(start_ns);
  std::vector<double> warm;
  for (int i = 0; i < 9; ++i) {
    double begin = now_s();
    fit();
    warm.push_back(now_s() - begin);
  }
  return {{"empty_fit_2_workers_s", median(warm)}, {"empty_fit_cold_s", cold}};
}

// Each worker says in a file of its own when it began and which process it is; the file appears
// when it is complete. The first attempt would take 40 s.
std::filesystem::path start_file(const std::string& folder, int attempt, int rank) {
  return std::filesystem::path(folder) / str("start-", attempt, "-", rank);
}

struct Start {
  double time = 0;
  pid_t pid = 0;
};

Start read_start(const std::string& folder, int attempt, int rank) {
  Start start;
  std::ifstream(start_file(folder, attempt, rank)) >> start.time >> start.pid;
  return start;
}

void killed_loop(const Json& config) {
  double time = now_s();
  auto context = train::get_context();
  auto path = start_file(config.at("folder"), context.attempt, context.world_rank);
  std::ofstream(path.string() + ".partial") << std::fixed << time << " " << ::getpid() << "\n";
  std::filesystem::rename(path.string() + ".partial", path);
  for (int i = 0; i < (context.attempt == 0 ? 400 : 3); ++i) std::this_thread::sleep_for(100ms);
  train::report({{"attempt", context.attempt}});
}

// 1 s after both have begun, kills rank 1. Returns when that was.
double kill_rank_1(const std::string& folder) {
  double deadline = now_s() + 30;
  while (!std::filesystem::exists(start_file(folder, 0, 0)) ||
         !std::filesystem::exists(start_file(folder, 0, 1))) {
    if (now_s() > deadline) throw Error(ErrorKind::kTimeout, "no workers to kill after 30 s");
    std::this_thread::sleep_for(10ms);
  }
  std::this_thread::sleep_for(1s);
  pid_t pid = read_start(folder, 0, 1).pid;
  double killed = now_s();
  ::kill(pid, SIGKILL);
  return killed;
}

Json measure_kill() {
  std::vector<double> times;
  for (int i = 0; i < 3; ++i) {
    TemporaryFolder folder;
    auto killed = std::async(std::launch::async, kill_rank_1, folder.path());
    RunConfig run{.storage_path = folder.path(), .verbose = false};
    run.failure_config.max_failures = 1;
    TorchTrainer trainer({.train_loop_per_worker = killed_loop,
                          .train_loop_config = {{"folder", folder.path()}},
                          .scaling_config = {.num_workers = 2},
                          .run_config = run});
    trainer.fit();
    double again =
        std::max(read_start(folder.path(), 1, 0).time, read_start(folder.path(), 1, 1).time);
    times.push_back(again - killed.get());
  }
  return {{"recovery_s", median(times)}};
}

// 16 matrices of 64 MiB.
struct GibibyteImpl : torch::nn::Module {
  GibibyteImpl() {
    for (int i = 0; i < 16; ++i)
      register_parameter("w" + std::to_string(i), torch::rand({4096, 4096}));
  }
};
TORCH_MODULE(Gibibyte);

void checkpoint_loop() {
  torch::set_num_threads(1);
  auto model = train::prepare_model(Gibibyte());
  Json holds = Json::array();
  for (int i = 0; i < 5; ++i) {
    double begin = now_s();
    train::report({{"holds", holds}}, TorchCheckpoint::from_model(model));
    holds.push_back(now_s() - begin);
    std::this_thread::sleep_for(3s);  // Files are written meanwhile.
  }
  train::report({{"holds", holds}});
}

Json measure_checkpoint() {
  TemporaryFolder folder;
  RunConfig run{.storage_path = folder.path(), .verbose = false};
  run.checkpoint_config.num_to_keep = 1;
  TorchTrainer trainer({.train_loop_per_worker = checkpoint_loop, .run_config = run});
  auto holds = trainer.fit().metrics.at("holds").get<std::vector<double>>();
  return {{"checkpoint_1gib_first_hold_s", holds.front()},
          {"checkpoint_1gib_hold_s", median({holds.begin() + 1, holds.end()})}};
}

}  // namespace

Json run_figures(const std::string& what, int64_t start_ns) {
  if (what == "fit") return measure_fit(start_ns);
  return what == "kill" ? measure_kill() : measure_checkpoint();
}
