#include "run_figures.h"

#include <manta/base/error_internal.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/torch.h>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <thread>
#include <vector>

#include "bench_clock.h"
#include "recovery_figures.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kWarmFits = 2;  // As in ray_train.py, where each takes 12 s.
constexpr int kReports = 4;

// Ray's TorchTrainer joins a process group in every fit; so does this loop, and uses it.
void empty_loop() {
  std::vector<torch::Tensor> one = {torch::ones({1})};
  train::get_process_group()->allreduce(one)->wait();
  train::report({{"sum", one[0].item<float>()}});
}

Json measure_fit(int64_t start_ns) {
  TemporaryFolder folder;
  auto fit = [&] {
    TorchTrainer trainer({.train_loop_per_worker = empty_loop,
                          .scaling_config = {.num_workers = 2},
                          .run_config = {.storage_path = folder.path(), .verbose = false}});
    if (trainer.fit().metrics.at("sum") != 2) throw Error(ErrorKind::kUserCode, "wrong sum");
  };
  fit();
  double cold = since_s(start_ns);
  Json warm = Json::array();
  for (int i = 0; i < kWarmFits; ++i) {
    double begin = now_s();
    fit();
    warm.push_back(now_s() - begin);
  }
  return {{"empty_fit_2_workers_s", warm}, {"empty_fit_cold_s", cold}};
}

// 16 matrices of 64 MiB.
struct GibibyteImpl : torch::nn::Module {
  GibibyteImpl() {
    for (int i = 0; i < 16; ++i)
      register_parameter("w" + std::to_string(i), torch::rand({4096, 4096}));
  }
};
TORCH_MODULE(Gibibyte);

void checkpoint_loop(const Json& config) {
  torch::set_num_threads(1);
  auto model = train::prepare_model(Gibibyte());
  Json holds = Json::array();
  for (int i = 0; i < config.at("reports"); ++i) {
    double begin = now_s();
    train::report({{"holds", holds}}, TorchCheckpoint::from_model(model));
    holds.push_back(now_s() - begin);
    std::this_thread::sleep_for(3s);  // Stands for training, while files are written.
  }
  train::report({{"holds", holds}});
}

// Measures how long the first report and the others hold the loop.
Json measure_checkpoint(const std::string& storage, int reports) {
  RunConfig run{.storage_path = storage, .verbose = false};
  run.checkpoint_config.num_to_keep = 1;
  TorchTrainer trainer({.train_loop_per_worker = checkpoint_loop,
                        .train_loop_config = {{"reports", reports}},
                        .run_config = run});
  Json holds = trainer.fit().metrics.at("holds");
  Json later(holds.begin() + 1, holds.end());
  return {{"first_hold_s", holds.front()},
          {"hold_s", later},
          {"worst_hold_s", *std::max_element(later.begin(), later.end())}};
}

}  // namespace

Json run_figures(const std::string& what, const std::string& file, int64_t start_ns) {
  TemporaryFolder folder;
  if (what == "fit") return measure_fit(start_ns);
  if (what == "kill" || what == "crash" || what == "cut") return measure_recovery(file, what);
  if (what == "checkpoint") return measure_checkpoint(folder.path(), kReports);
  std::string slow = folder.path() + "/slow-disk";
  std::filesystem::create_directory(slow);
  return measure_checkpoint(slow, kReports + 1);
}
