#include "tree_figures.h"

#include <arrow/api.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

#include "bench_clock.h"
#include "kept_checkpoint.h"
#include "taxi_pipeline.h"

using namespace manta;

namespace {

constexpr int kPasses = 3;  // The first warms up.

// As taxi_boosting.py.
Result fit_trees(const std::string& trips, const std::string& storage) {
  XGBoostTrainer trainer({.params = {{"objective", "binary:logistic"},
                                     {"eval_metric", "logloss"},
                                     {"tree_method", "hist"},
                                     {"max_depth", 6},
                                     {"eta", 0.3}},
                          .label_column = kTaxiLabel,
                          .num_boost_round = 20,
                          .datasets = {{"train", load_taxi(trips)}},
                          .scaling_config = {.num_workers = 2},
                          .run_config = {.storage_path = storage, .verbose = false}});
  return trainer.fit();
}

}  // namespace

Json train_trees(const std::string& trips) {
  TemporaryFolder folder;
  double begin = now_s();
  Result result = fit_trees(trips, folder.path());
  double elapsed = now_s() - begin;
  std::cerr << result.metrics << std::endl;
  if (result.metrics.at("train-logloss") > 0.69 || !result.checkpoint) {
    throw Error(ErrorKind::kUserCode, "nothing was learned");
  }
  return {{"end_to_end_s", elapsed}};
}

void make_trees(const std::string& trips, const std::string& folder) {
  TemporaryFolder storage;
  keep_checkpoint(fit_trees(trips, storage.path()).checkpoint, folder);
}

Json predict_with_trees(const std::string& trips, const std::string& folder) {
  auto predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(kept_checkpoint(folder));
  Json rates = Json::array();
  for (int i = 0; i < kPasses; ++i) {
    double begin = now_s(), sum = 0;
    int64_t rows = 0;
    for (const auto& batch : predictor.predict(load_taxi(trips)).iter_batches()) {
      auto column = batch->GetColumnByName("predictions");
      const auto& values = static_cast<const arrow::FloatArray&>(*column);
      for (int64_t k = 0; k < values.length(); ++k) sum += values.Value(k);
      rows += values.length();
    }
    double elapsed = now_s() - begin;
    std::cerr << rows << " rows, mean " << sum / static_cast<double>(rows) << std::endl;
    if (i > 0) rates.push_back(static_cast<double>(rows) / elapsed);
  }
  return {{"rows_per_s", rates}};
}
