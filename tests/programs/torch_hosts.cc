// Training on several nodes, for tests that lose some of them on the way:
//   torch_hosts <storage> <name> <data.parquet> <workers> [options]
// The driver's node has `--cpus` CPUs. It is deterministic: whatever happens on the way, and on
// however many nodes the workers are, it ends with the same parameters except for rounding, and has
// used every row once in every epoch. It prints that, and the list of its reports.

#include <manta/manta.h>
#include <manta/torch.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <iomanip>
#include <iostream>
#include <thread>

#include "usage.h"

using namespace manta;

struct NetImpl : torch::nn::Module {
  NetImpl()
      : layers(register_module("layers",
                               torch::nn::Sequential(torch::nn::Linear(3, 16), torch::nn::Tanh(),
                                                     torch::nn::Linear(16, 1)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

namespace {

// For a test: an agent's zygote, and so its workers, start when there is such a file.
const bool may_start = [] {
  const char* file = std::getenv("TORCH_HOSTS_START_AFTER");
  bool waits = file && std::getenv("MANTA_START_FD");
  for (int i = 0; waits && i < 5000 && !std::filesystem::exists(file); ++i)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  return true;
}();

// The sums over all ranks.
std::vector<int64_t> sum(std::vector<int64_t> own) {
  auto group = train::get_process_group();
  std::vector<torch::Tensor> tensors = {torch::tensor(own, torch::kInt64)};
  if (group) group->allreduce(tensors)->wait();
  auto* values = tensors[0].data_ptr<int64_t>();
  return {values, values + own.size()};
}

void loop(const Json& config) {
  auto context = train::get_context();
  std::cout << "rank " + std::to_string(context.world_rank) + " is " +
                   std::to_string(context.local_rank) + " of " +
                   std::to_string(context.local_world_size) + " on " + context.node_name +
                   ", node " + std::to_string(context.node_rank) + " of " +
                   std::to_string(context.num_nodes) + "\n"
            << std::flush;
  torch::manual_seed(1);
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(Net());
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  int64_t step = 0;
  std::vector<int64_t> used = {
      0, 0, 0};  // rows of this epoch so far, the sum and the sum of squares of their ids
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
    step = saved.get("step");
    used = saved.get("used").get<std::vector<int64_t>>();
  }
  for (int64_t epoch = shard.epoch(); epoch < config.at("epochs"); ++epoch) {
    std::vector<int64_t> own = {0, 0, 0};
    auto tell = [&](bool ends) {
      auto all = sum(own);
      for (size_t i = 0; i < used.size(); ++i) used[i] += all[i];
      own = {0, 0, 0};
      Json metrics = {{"step", step}, {"epoch", epoch}, {"ends", ends}, {"used", used}};
      if (ends) used = {0, 0, 0};
      train::report(
          metrics,
          TorchCheckpoint::from_model(model, optimizer).set("step", step).set("used", used));
    };
    for (auto& batch : iter_torch_batches(shard, {.global_batch_size = 60})) {
      auto x = batch.columns({"a", "b", "c"}).to(torch::kFloat32);
      auto y = batch["y"].to(torch::kFloat32).unsqueeze(1);
      auto loss = torch::mse_loss(model->forward(x), y);
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      ++step;
      auto ids = batch["id"];
      own[0] += ids.numel();
      own[1] += ids.sum().item<int64_t>();
      own[2] += (ids * ids).sum().item<int64_t>();
      std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause-ms").get<int>()));
      bool stops = config.at("asks") == 1 && train::should_stop();
      if (stops || step % config.at("report-every").get<int>() == 0) tell(false);
      if (stops) return;
    }
    tell(true);
  }
}

// For workers that stay: where each of them was.
std::string loop_of_worker(const Json& config) {
  loop(config);
  return train::get_context().node_name;
}

std::string where_is_worker() { return train::get_context().node_name; }

// With the earlier style's trainer, twice on the same workers.
Result run_in_earlier_style(const ScalingConfig& scaling, const RunConfig& run, const Json& options,
                            const Dataset& rows) {
  Trainer trainer("torch", {.num_workers = scaling.num_workers,
                            .max_retries = run.failure_config.max_failures,
                            .name = run.name,
                            .storage_path = run.storage_path});
  trainer.start();
  auto nodes = trainer.run(loop_of_worker, options, {.dataset = {{"train", rows}}});
  Result result = trainer.latest_run();
  auto again = trainer.run(where_is_worker);
  std::cout << "on";
  for (const std::string& node : nodes) std::cout << " " << node;
  std::cout << (nodes == again ? ", and again" : ", then elsewhere") << std::endl;
  trainer.shutdown();
  return result;
}

data::BatchPtr without_change(const data::BatchPtr& batch) { return batch; }

Result run_trainer(TorchTrainer trainer) { return trainer.fit(); }

// In a folder, or at an address such as s3://bucket/runs?region=us-east-1.
std::string path_of(const std::string& storage, const std::string& name) {
  std::string path = storage;
  return path.insert(std::min(path.find('?'), path.size()), "/" + name);
}

}  // namespace

int main(int argc, char** argv) {
  Json options = {{"cpus", 2},      {"epochs", 2},      {"pause-ms", 0}, {"max-failures", 0},
                  {"in-memory", 0}, {"restore", 0},     {"spread", 0},   {"timeout-ms", 60000},
                  {"gloo", 0},      {"min-workers", 0}, {"asks", 0},     {"report-every", 20},
                  {"split", 0},     {"earlier", 0},     {"function", 0}};
  for (int i = 5; i + 1 < argc; i += 2) {
    std::string option = std::string(argv[i]).erase(0, 2);
    if (!options.contains(option)) {
      std::cerr << "torch_hosts: no option " << argv[i] << "; there are " << options.dump() << "\n";
      return 2;
    }
    options[option] = std::stoll(argv[i + 1]);
  }
  manta::init(argc, argv, {.resources = {.cpus = options["cpus"]}});
  const char* text = "torch_hosts <storage> <name> <data.parquet> <workers> [options]";
  if (auto done = usage(argc, argv, text, 4, 100)) return *done;
  std::string storage = argv[1], name = argv[2], data = argv[3];
  RunConfig run{.name = name, .storage_path = storage};
  run.failure_config.max_failures = options["max-failures"];
  run.collective_timeout = std::chrono::milliseconds(options["timeout-ms"].get<int>());
  ScalingConfig scaling{.num_workers = std::stoi(argv[4])};
  scaling.min_workers = options["min-workers"];
  // 0: as it is by default, 1: always, 2: never
  if (options["split"] == 1) scaling.split_reading = SplitReading::kAlways;
  if (options["split"] == 2) scaling.split_reading = SplitReading::kNever;
  if (options["spread"] == 1) scaling.placement_strategy = Placement::kSpread;
  try {
    Dataset rows = data::read_parquet(data);
    if (options["in-memory"] == 1) rows = data::from_arrow(rows.to_table());
    if (options["function"] == 1) rows = rows.map_batches(without_change);
    rows = rows.window_shuffle({.rows = 256, .seed = 3});
    Result result =
        options["earlier"] == 1 ? run_in_earlier_style(scaling, run, options, rows)
        : options["restore"] == 1
            ? run_trainer(
                  TorchTrainer::restore(path_of(storage, name), {.train_loop_per_worker = loop,
                                                                 .train_loop_config = options,
                                                                 .scaling_config = scaling,
                                                                 .run_config = run}))
            : run_trainer(TorchTrainer(
                  {.train_loop_per_worker = loop,
                   .train_loop_config = options,
                   .scaling_config = scaling,
                   .run_config = run,
                   .datasets = {{"train", rows}},
                   .torch_config = {.backend = options["gloo"] == 1 ? "gloo" : "auto"}}));
    double total = 0;
    TorchCheckpoint saved(result.checkpoint);
    for (const auto& item : saved.tensors())
      total += item.tensor.to(torch::kFloat64).abs().sum().item<double>();
    std::cout << "reports of steps";
    for (const Json& report : result.metrics_history) std::cout << " " << report.at("step");
    std::cout << "\n";
    for (const Json& report : result.metrics_history) {
      if (report.at("ends")) std::cout << "used " << report.at("used").dump() << "\n";
    }
    std::cout << "done " << std::setprecision(9) << total << " after "
              << result.metrics_history.size() << " reports" << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
