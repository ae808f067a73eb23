// Boosts trees on several nodes: trees_hosts <storage> <name> <table.csv> <workers> <cpus of the
// driver's node> [<file>]. Prints the last metrics. With a file, it boosts a hundred with random
// choices, stands still after the tenth until that file is there, and goes on if a worker is lost.

#include <manta/manta.h>
#include <manta/xgboost.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iomanip>
#include <iostream>
#include <iterator>
#include <thread>

#include "usage.h"

using namespace manta;

namespace {

constexpr int kManyRounds = 100;  // workers are at most 64 ahead of the tenth

// Holds the driver, and soon the workers, after a report.
class StandsStill final : public Callback {
 public:
  explicit StandsStill(std::string until) : until_(std::move(until)) {}
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    if (report.index != 9 || std::exchange(done_, true)) return {};
    std::cout << "stands still" << std::endl;
    for (int i = 0; i < 5000 && !std::filesystem::exists(until_); ++i)
      std::this_thread::sleep_for(std::chrono::milliseconds(10));
    return {};
  }

 private:
  const std::string until_;
  bool done_ = false;
};

// FNV-1a.
uint64_t digest_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  uint64_t digest = 14695981039346656037u;
  for (std::istreambuf_iterator<char> each(in), end; each != end; ++each)
    digest = (digest ^ static_cast<unsigned char>(*each)) * 1099511628211u;
  return digest;
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = argc > 5 ? std::stod(argv[5]) : 0}});
  const char* text = "trees_hosts <storage> <name> <table.csv> <workers> <cpus> [<file>]";
  if (auto done = usage(argc, argv, text, 5, 6)) return *done;
  try {
    XGBoostTrainerOptions options{
        .params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
        .label_column = "target",
        .num_boost_round = 10,
        .datasets = {{"train", data::read_csv(argv[3])}},
        .scaling_config = {.num_workers = std::stoi(argv[4])},
        .run_config = {.name = argv[2], .storage_path = argv[1]}};
    if (argc > 6) {
      options.params["subsample"] = 0.7;
      options.num_boost_round = kManyRounds;
      options.run_config.checkpoint_config.checkpoint_frequency = 4;
      options.run_config.failure_config.max_failures = 1;
      options.run_config.callbacks = {std::make_shared<StandsStill>(argv[6])};
    }
    Result result = XGBoostTrainer(options).fit();
    for (const Json& report : result.metrics_history) {
      std::cout << "round: " << report << "\n";
    }
    std::cout << "model: " << digest_of(result.checkpoint.file("model.ubj")) << "\n";
    std::cout << "logloss " << std::setprecision(9)
              << result.metrics.at("train-logloss").get<double>() << " on "
              << result.rows.at("train") << " rows" << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
