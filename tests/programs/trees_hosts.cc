// Boosts trees on several nodes: trees_hosts <storage> <name> <table.csv> <workers> <cpus of the
// driver's node>. Prints the last metrics.

#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iomanip>
#include <iostream>

#include "usage.h"

using namespace manta;

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = argc > 5 ? std::stod(argv[5]) : 0}});
  const char* text = "trees_hosts <storage> <name> <table.csv> <workers> <cpus>";
  if (auto done = usage(argc, argv, text, 5, 5)) return *done;
  try {
    XGBoostTrainer trainer(
        {.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
         .label_column = "target",
         .num_boost_round = 10,
         .datasets = {{"train", data::read_csv(argv[3])}},
         .scaling_config = {.num_workers = std::stoi(argv[4])},
         .run_config = {.name = argv[2], .storage_path = argv[1]}});
    Result result = trainer.fit();
    std::cout << "logloss " << std::setprecision(9)
              << result.metrics.at("train-logloss").get<double>() << " on "
              << result.rows.at("train") << " rows" << std::endl;
  } catch (const Error& error) {
    std::cout << "failed " << kind_name(error.kind()) << ": " << error.what() << std::endl;
    return 1;
  }
}
