#include "tune_figures.h"

#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

#include "bench_clock.h"

using namespace manta;

namespace {

double empty(const Json& config) { return config.at("x"); }

Json timed(const Tuner& tuner, int trials) {
  double begin = now_s();
  ResultGrid results = tuner.fit();
  double elapsed = now_s() - begin;
  if (results.num_terminated() != static_cast<size_t>(trials)) {
    throw Error(ErrorKind::kUserCode, "not all trials ended well");
  }
  std::cerr << trials << " trials, best: " << results.get_best_result().metrics << std::endl;
  return {{"fit_s", elapsed}, {"trials_per_s", trials / elapsed}};
}

}  // namespace

Json tune_empty(int trials) {
  TemporaryFolder folder;
  Tuner tuner(empty, {.param_space = {{"x", tune::uniform(0, 1)}},
                      .tune_config = {.metric = "value", .mode = "min", .num_samples = trials},
                      .run_config = {.storage_path = folder.path(), .verbose = false}});
  return timed(tuner, trials);
}

Json tune_xgboost(const std::string& table, int trials) {
  TemporaryFolder folder;
  auto [train_set, valid_set] = data::read_csv(table).train_test_split(0.2);
  XGBoostTrainer trainer(
      {.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
       .label_column = "target",
       .num_boost_round = 20,
       .datasets = {{"train", train_set}, {"valid", valid_set}}});
  Tuner tuner(trainer,
              {.param_space = {.params = {{"max_depth", tune::randint(1, 9)},
                                          {"eta", tune::loguniform(1e-4, 1e-1)}}},
               .tune_config = {.metric = "train-logloss", .mode = "min", .num_samples = trials},
               .run_config = {.storage_path = folder.path(), .verbose = false}});
  return timed(tuner, trials);
}
