// Tunes over numbers of workers, preprocessors and XGBoost's parameters at once: four combinations
// of the two grids, each with parameters of its own, drawn at random.
//
//   tune_preprocessors
//
// Prints a line for each trial, and the best of them.

#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

using namespace manta;

int main(int argc, char** argv) try {
  manta::init(
      argc, argv,
      {.resources = {.cpus = 8}});  // as on a machine of 8: some trials have 4 workers of 2 CPUs
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr) << "usage: tune_preprocessors   (tunes on 200 rows)\n";
    return help ? 0 : 2;
  }
  std::vector<Json> items;
  for (int x = 0; x < 200; ++x) items.push_back({{"X", x}, {"Y", x < 100 ? 1 : 0}});
  Dataset dataset = data::from_items(items);
  StandardScaler prep_v1({"X"});
  MinMaxScaler prep_v2({"X"});

  XGBoostTrainer trainer({.label_column = "Y", .datasets = {{"train", dataset}}});
  Tuner tuner(trainer,
              {.param_space = {.scaling_config = {.num_workers = tune::grid_search({2, 4}),
                                                  .resources_per_worker = Resources{.cpus = 2}},
                               .preprocessor = tune::grid_search(prep_v1, prep_v2),
                               .params = {{"objective", "binary:logistic"},
                                          {"tree_method", "hist"},
                                          {"eval_metric", {"logloss", "error"}},
                                          {"eta", tune::loguniform(1e-4, 1e-1)},
                                          {"subsample", tune::uniform(0.5, 1.0)},
                                          {"max_depth", tune::randint(1, 9)}}},
               .tune_config = {.metric = "train-logloss", .mode = "min"}});
  ResultGrid results = tuner.fit();
  for (const Result& result : results) {
    std::cout << result.config.dump() << " "
              << (result.error ? "failed" : result.metrics.at("train-logloss").dump()) << "\n";
  }
  std::cout << results.size() << " trials, " << results.num_errors()
            << " failed; best: " << results.get_best_result().config.dump() << std::endl;
} catch (const Error& error) {
  std::cerr << "tune_preprocessors: " << error.what() << std::endl;
  return 1;
}
