// An experiment, on one machine or on several hosts:
//   tune_hosts <storage> <name> <cpus here> <trials> <reports> <pause in ms> function|trainer
// Goes on with the experiment if there is one. Every trial prints where it is:
//   "trial_00003 attempt 1 begins at report 4 on n2 (pid 4711)"
//   "trial_00003 attempt 1 has made report 4 on n2"
// At the end it prints a line with each trial's result, which is the same wherever the trial ran.

#include <manta/manta.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <iterator>
#include <thread>

#include "usage.h"

using namespace manta;

namespace {

// More bytes than two parts of a transferred file.
std::string bytes_of(int64_t n) {
  std::string bytes(2'500'000, '\0');
  for (size_t i = 0; i < bytes.size(); ++i)
    bytes[i] = static_cast<char>((i * 7 + static_cast<size_t>(n) * 31) % 251);
  return bytes;
}

std::string text_of(const std::string& path) {
  std::ifstream in(path);
  return {std::istreambuf_iterator<char>(in), {}};
}

class State final : public CheckpointSource {
 public:
  State(double x, int64_t n, double value) : state_{{"x", x}, {"n", n}, {"value", value}}, n_(n) {}
  void stage() override {}
  void write(CheckpointFolder& folder) override {
    folder.write("state/state.json", state_.dump());
    folder.write("state/bytes", bytes_of(n_));
    folder.write("empty", "");
  }

 private:
  Json state_;
  int64_t n_;
};

// Throws if the content has changed.
Json state_of(const Checkpoint& checkpoint) {
  Json state = Json::parse(text_of(checkpoint.file("state/state.json")));
  bool same = text_of(checkpoint.file("state/bytes")) == bytes_of(state.at("n")) &&
              text_of(checkpoint.file("empty")).empty();
  if (!same) throw std::runtime_error("checkpoint '" + checkpoint.path() + "' has other bytes");
  return state;
}

// The same as a function and as the loop of a trainer.
void iterate(const Json& config) {
  auto context = tune::get_context();
  std::string node = get_runtime_context().node;
  auto tell = [&](const std::string& text) {
    std::cout << context.trial_name + " attempt " + std::to_string(context.attempt) + " " + text +
                     "\n"
              << std::flush;
  };
  int64_t next = 0;
  double value = config.at("x");
  if (Checkpoint from = tune::get_checkpoint()) {
    Json state = state_of(from);
    next = state.at("n").get<int64_t>() + 1;
    value = state.at("value");
  }
  tell("begins at report " + std::to_string(next) + " on " + node + " (pid " +
       std::to_string(::getpid()) + ")");
  for (int64_t n = next; n < config.at("reports").get<int64_t>(); ++n) {
    std::this_thread::sleep_for(std::chrono::milliseconds(config.at("pause").get<int>()));
    value = 3.9 * value * (1 - value);  // chaotic: a report more or less would show
    tune::report({{"n", n}, {"value", value}, {"node", node}},
                 std::make_shared<State>(config.at("x"), n, value));
    tell("has made report " + std::to_string(n) + " on " + node);
  }
}

// In a folder, or at an address such as s3://bucket/runs?region=us-east-1.
std::string path_of(const std::string& storage, const std::string& name) {
  std::string path = storage;
  return path.insert(std::min(path.find('?'), path.size()), "/" + name);
}

template <class T>
ResultGrid run(const T& trainable, typename tune::SpaceOf<T>::type space, int trials,
               const RunConfig& config) {
  std::string path = path_of(config.storage_path, config.name);
  if (Tuner::can_restore(path)) return Tuner::restore(path, trainable).fit();
  return Tuner(trainable, {.param_space = std::move(space),
                           .tune_config = {.num_samples = trials, .max_cpu_fraction = 1, .seed = 5},
                           .run_config = config})
      .fit();
}

}  // namespace

int main(int argc, char** argv) {
  double cpus = argc > 3 ? std::atof(argv[3]) : 2;
  manta::init(argc, argv, {.resources = {.cpus = cpus}});
  const char* text =
      "tune_hosts <storage> <name> <cpus here> <trials> <reports> <pause in ms> function|trainer";
  if (auto done = usage(argc, argv, text, 7, 7)) return *done;
  RunConfig config{.name = argv[2], .storage_path = argv[1], .verbose = false};
  int trials = std::stoi(argv[4]);
  config.failure_config.max_failures = 5;
  config.checkpoint_config.num_to_keep = 2;
  tune::Space space = {{"x", tune::uniform(0.1, 0.9)},
                       {"reports", std::stoi(argv[5])},
                       {"pause", std::stoi(argv[6])}};
  try {
    DataParallelTrainer trainer({.train_loop_per_worker = iterate});
    ResultGrid results = std::string(argv[7]) == "function"
                             ? run(iterate, space, trials, config)
                             : run(trainer, {.train_loop_config = space}, trials, config);
    for (const Result& result : results) {
      std::cout << "result: " << result.metrics_history.size() << " reports, "
                << state_of(result.checkpoint) << std::endl;
    }
    for (const Error& error : results.errors()) std::cout << error.what() << std::endl;
    std::cout << "done " << results.size() << " " << results.num_errors() << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
