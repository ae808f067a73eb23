// A training run that tests kill. Deterministic: whatever happens to it on the way, it must end
// with the same parameters.
//
//   torch_job <storage> <name> <data.parquet> [options]

#include <manta/manta.h>
#include <manta/torch.h>
#include <sched.h>
#include <sys/mount.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <iomanip>
#include <iostream>

using namespace manta;

struct NetImpl : torch::nn::Module {
  explicit NetImpl(int64_t width = 16)
      : layers(register_module("layers",
                               torch::nn::Sequential(torch::nn::Linear(3, width), torch::nn::Tanh(),
                                                     torch::nn::Linear(width, 1)))) {}
  torch::Tensor forward(const torch::Tensor& x) { return layers->forward(x); }
  torch::nn::Sequential layers;
};
TORCH_MODULE(Net);

void loop(const Json& config) {
  torch::manual_seed(1);
  auto shard = train::get_dataset_shard("train");
  auto model = train::prepare_model(Net(config.at("width").get<int64_t>()));
  torch::optim::Adam optimizer(model->parameters(), 1e-2);
  int64_t step = 0;
  if (auto checkpoint = train::get_checkpoint()) {
    TorchCheckpoint saved(checkpoint);
    saved.load_model(model);
    saved.load_optimizer(optimizer);
    step = saved.get("step");
  }
  auto context = train::get_context();
  for (int64_t epoch = shard.epoch(); epoch < config.at("epochs"); ++epoch) {
    for (auto& batch :
         shard.iter_torch_batches({.global_batch_size = 64, .dtypes = torch::kFloat32})) {
      auto output = model->forward(batch.columns({"a", "b", "c"}));
      auto loss = torch::mse_loss(output, batch["y"].unsqueeze(1));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      ++step;
      if (config.at("throw_at") == step && context.world_rank == 1) {
        throw std::runtime_error("the loop does not like step " + std::to_string(step));
      }
      if (config.at("exit_at") == step && context.world_rank == 1) std::exit(7);
      std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause_ms").get<int>()));
      if (step % config.at("report_every").get<int64_t>() != 0) continue;
      Json metrics = {{"step", step}, {"loss", loss.item<double>()}};
      train::report(metrics, TorchCheckpoint::from_model(model, optimizer).set("step", step));
      // What happens to the weights now must not show in the file.
      if (config.at("mutate")) {
        torch::NoGradGuard no_grad;
        for (auto& parameter : model->parameters()) parameter.add_(1000);
      }
    }
  }
}

// A disk of its own that is soon full.
void use_small_disk(const std::string& path, const std::string& size) {
  std::filesystem::create_directories(path);
  if (::unshare(CLONE_NEWNS) != 0 && ::unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0) {
    std::cout << "cannot mount" << std::endl;
    std::exit(0);
  }
  ::mount(nullptr, "/", nullptr, MS_REC | MS_PRIVATE, nullptr);
  if (::mount("tmpfs", path.c_str(), "tmpfs", 0, ("size=" + size).c_str()) != 0) {
    std::cout << "cannot mount" << std::endl;
    std::exit(0);
  }
}

// Prints what fit() and the others say without manta::init.
int without_init() {
  auto say = [](auto call) {
    try {
      call();
    } catch (const Error& error) {
      std::cout << error.what() << std::endl;
    }
  };
  say([] { TorchTrainer({.train_loop_per_worker = loop}).fit(); });
  say([] { put(1); });
  say([] { cluster_resources(); });
  return 0;
}

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "no_init") return without_init();
  std::string storage, name, data, disk, backend = "auto";
  int workers = 2, epochs = 2, report_every = 2, max_failures = 0, pause_ms = 0, timeout_ms = 60000;
  int throw_at = -1, exit_at = -1, keep = 0;
  int64_t width = 16;
  bool restore = false, mutate = false, quiet = false;
  CLI::App app;
  app.add_option("storage", storage)->required();
  app.add_option("name", name)->required();
  app.add_option("data", data)->required();
  app.add_option("--workers", workers);
  app.add_option("--epochs", epochs);
  app.add_option("--report-every", report_every);
  app.add_option("--max-failures", max_failures);
  app.add_option("--pause-ms", pause_ms);
  app.add_option("--timeout-ms", timeout_ms);
  app.add_option("--throw-at", throw_at);
  app.add_option("--exit-at", exit_at);
  app.add_option("--keep", keep);
  app.add_option("--width", width);
  app.add_option("--disk", disk);
  app.add_option("--backend", backend);
  app.add_flag("--restore", restore);
  app.add_flag("--mutate", mutate);
  app.add_flag("--quiet", quiet);
  // The disk must be there before init, which starts this program again as the zygote.
  for (int i = 1; i + 1 < argc && !::getenv("DISK_IS_THERE"); ++i) {
    if (std::string(argv[i]) != "--disk") continue;
    use_small_disk(argv[1], argv[i + 1]);
    ::setenv("DISK_IS_THERE", "1", 1);
  }
  manta::init(argc, argv, {.resources = {.cpus = 8}});
  CLI11_PARSE(app, argc, argv);

  Json config = {{"epochs", epochs},     {"report_every", report_every}, {"pause_ms", pause_ms},
                 {"throw_at", throw_at}, {"exit_at", exit_at},           {"mutate", mutate},
                 {"width", width}};
  RunConfig run{.name = name, .storage_path = storage, .verbose = !quiet};
  run.failure_config.max_failures = max_failures;
  run.checkpoint_config.num_to_keep = keep;
  run.collective_timeout = std::chrono::milliseconds(timeout_ms);
  try {
    Result result;
    std::string path = storage + "/" + name;
    if (restore && TorchTrainer::can_restore(path)) {
      auto trainer =
          TorchTrainer::restore(path, {.train_loop_per_worker = loop,
                                       .train_loop_config = config,
                                       .scaling_config = ScalingConfig{.num_workers = workers},
                                       .run_config = run});
      result = trainer.fit();
    } else {
      TorchTrainer trainer({.train_loop_per_worker = loop,
                            .train_loop_config = config,
                            .scaling_config = {.num_workers = workers},
                            .run_config = run,
                            .datasets = {{"train", data::read_parquet(data).window_shuffle(
                                                       {.rows = 256, .seed = 3})}},
                            .torch_config = {.backend = backend}});
      result = trainer.fit();
    }
    Checkpoint checkpoint = Checkpoint::from_directory(result.checkpoint.path());
    double sum = 0;
    TorchCheckpoint saved(checkpoint);
    for (const auto& item : saved.tensors()) {
      sum += item.tensor.to(torch::kFloat64).abs().sum().item<double>();
    }
    std::cout << "done " << std::setprecision(9) << sum << " "
              << checkpoint.manifest().at("files").dump() << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
