// A training run that tests kill. Deterministic: whatever happens to it on the way, it must end
// with the same parameters.
//
//   torch_job <storage> <name> <data.parquet> [options]

#include <manta/manta.h>
#include <manta/torch.h>
#include <sched.h>
#include <sys/mount.h>

#include <filesystem>
#include <iomanip>
#include <iostream>

#include "usage.h"

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
         iter_torch_batches(shard, {.global_batch_size = 64, .dtypes = torch::kFloat32})) {
      auto output = model->forward(batch.columns({"a", "b", "c"}));
      auto loss = torch::mse_loss(output, batch["y"].unsqueeze(1));
      optimizer.zero_grad();
      loss.backward();
      optimizer.step();
      ++step;
      if (config.at("throw-at") == step && context.world_rank == 1) {
        throw std::runtime_error("the loop does not like step " + std::to_string(step));
      }
      if (config.at("exit-at") == step && context.world_rank == 1) std::exit(7);
      std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause-ms").get<int>()));
      bool stops = config.at("asks") && train::should_stop();
      if (config.at("asks") && step == 1) std::cout << "has asked" << std::endl;
      if (stops && config.at("never-returns")) std::this_thread::sleep_for(std::chrono::hours(1));
      if (step % config.at("report-every").get<int64_t>() != 0 && !stops) continue;
      Json metrics = {{"step", step}, {"loss", loss.item<double>()}};
      train::report(metrics, TorchCheckpoint::from_model(model, optimizer).set("step", step));
      // Changes of the weights from now on must not show in the file.
      if (config.at("mutate")) {
        torch::NoGradGuard no_grad;
        for (auto& parameter : model->parameters()) parameter.add_(1000);
      }
      if (stops) return;
    }
  }
}

// Uses its own disk, which is soon full.
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

// Prints the errors of fit() and other functions without manta::init.
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

// "--report-every 2" sets options["report-every"], which must be there; a flag takes no value.
void read_options(int argc, char** argv, Json& options) {
  for (int i = 4; i < argc; ++i) {
    std::string name = std::string(argv[i]).erase(0, 2);
    if (!options.contains(name)) throw std::invalid_argument(std::string("no option ") + argv[i]);
    Json& option = options[name];
    if (option.is_boolean()) {
      option = true;
    } else if (i + 1 == argc) {
      throw std::invalid_argument(std::string(argv[i]) + " needs a value");
    } else if (option.is_string()) {
      option = argv[++i];
    } else {
      option = std::stoll(argv[++i]);
    }
  }
}

int main(int argc, char** argv) {
  if (argc == 2 && std::string(argv[1]) == "no_init") return without_init();
  // The disk must be there before init, which starts this program again as the zygote.
  for (int i = 1; i + 1 < argc && !::getenv("DISK_IS_THERE"); ++i) {
    if (std::string(argv[i]) != "--disk") continue;
    use_small_disk(argv[1], argv[i + 1]);
    ::setenv("DISK_IS_THERE", "1", 1);
  }
  manta::init(argc, argv, {.resources = {.cpus = 8}});
  Json options = {{"workers", 2},      {"epochs", 2},       {"report-every", 2},
                  {"max-failures", 0}, {"pause-ms", 0},     {"throw-at", -1},
                  {"exit-at", -1},     {"keep", 0},         {"timeout-ms", 60000},
                  {"width", 16},       {"disk", ""},        {"backend", "auto"},
                  {"restore", false},  {"mutate", false},   {"quiet", false},
                  {"asks", false},     {"grace-ms", 30000}, {"never-returns", false}};
  const char* text = "torch_job no_init | <storage> <name> <data.parquet> [options]";
  if (auto done = usage(argc, argv, text, 3, 100)) return *done;
  try {
    read_options(argc, argv, options);
  } catch (const std::exception& error) {
    std::cerr << "torch_job: " << error.what() << "; there are " << options.dump() << std::endl;
    return 2;
  }
  std::string storage = argv[1], name = argv[2], data = argv[3];

  RunConfig run{.name = name, .storage_path = storage, .verbose = !options["quiet"]};
  run.failure_config.max_failures = options["max-failures"];
  run.checkpoint_config.num_to_keep = options["keep"];
  run.collective_timeout = std::chrono::milliseconds(options["timeout-ms"].get<int>());
  run.stop_grace = std::chrono::milliseconds(options["grace-ms"].get<int>());
  int workers = options["workers"];
  try {
    Result result;
    std::string path = storage + "/" + name;
    if (options["restore"] && TorchTrainer::can_restore(path)) {
      auto trainer =
          TorchTrainer::restore(path, {.train_loop_per_worker = loop,
                                       .train_loop_config = options,
                                       .scaling_config = ScalingConfig{.num_workers = workers},
                                       .run_config = run});
      result = trainer.fit();
    } else {
      TorchTrainer trainer({.train_loop_per_worker = loop,
                            .train_loop_config = options,
                            .scaling_config = {.num_workers = workers},
                            .run_config = run,
                            .datasets = {{"train", data::read_parquet(data).window_shuffle(
                                                       {.rows = 256, .seed = 3})}},
                            .torch_config = {.backend = options["backend"]}});
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
