#include "served_model.h"

#include <arrow/api.h>
#include <manta/base/temporary_folder_internal.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <algorithm>
#include <fstream>
#include <iostream>
#include <string>
#include <vector>

#include "kept_checkpoint.h"

using namespace manta;

namespace {

const std::vector<std::string> kScaled = {"mean radius", "mean texture"};

Checkpoint tune_model(const Dataset& train_set, const Dataset& valid_set,
                      const std::string& storage) {
  XGBoostTrainer trainer(
      {.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
       .label_column = "target",
       .num_boost_round = 20,
       .datasets = {{"train", train_set}, {"valid", valid_set}},
       .preprocessor = StandardScaler(kScaled)});
  Tuner tuner(
      trainer,
      {.param_space = {.params = {{"max_depth", tune::randint(1, 9)}}},
       .tune_config = {.metric = "train-logloss", .mode = "min", .num_samples = 8, .seed = 1},
       .run_config = {.storage_path = storage, .verbose = false}});
  Result best = tuner.fit().get_best_result();
  std::cerr << "the best of 8: " << best.config << ", " << best.metrics << std::endl;
  return best.checkpoint;
}

template <class Content>
void write(const std::string& path, const Content& content) {
  std::ofstream(path) << content << "\n";
}

}  // namespace

void make_served_model(const std::string& table, const std::string& folder) {
  TemporaryFolder storage;
  auto [train_set, valid_set] = data::read_csv(table).train_test_split(0.2);
  Checkpoint checkpoint = tune_model(train_set, valid_set, storage.path());
  keep_checkpoint(checkpoint, folder);

  auto predictor = XGBoostPredictor::from_checkpoint(checkpoint);
  auto row = train_set.drop_columns({"target"}).take(1)->CombineChunksToBatch().ValueOrDie();
  StandardScaler scaler(kScaled);
  scaler.fit(train_set);
  Json scale = {{"columns", predictor.feature_columns()}};
  nlohmann::ordered_json request;  // In the order of the table, as a client would have it.
  for (const auto& name : predictor.feature_columns()) {
    bool scaled = std::find(kScaled.begin(), kScaled.end(), name) != kScaled.end();
    scale["mean"].push_back(scaled ? scaler.stats().at("mean(" + name + ")") : Json(0.0));
    scale["std"].push_back(scaled ? scaler.stats().at("std(" + name + ")") : Json(1.0));
    auto value = std::static_pointer_cast<arrow::DoubleArray>(row->GetColumnByName(name));
    request[name] = {value->Value(0)};
  }
  auto predictions = predictor.predict(row)->GetColumnByName("predictions");
  write(folder + "/scale.json", scale);
  write(folder + "/request.json", request);
  write(folder + "/answer.json",
        Json(std::static_pointer_cast<arrow::FloatArray>(predictions)->Value(0)));
}

void serve_model(const std::string& folder) {
  serve::start({.http = {.port = 0}});
  auto deployment = PredictorDeployment::options({.name = "cancer"});
  deployment.deploy<XGBoostPredictor>(kept_checkpoint(folder),
                                      {.http_adapter = serve::json_columns});
  std::cout << Json{{"url", deployment.url()}} << std::endl;
  std::cin.get();
  serve::shutdown();
}
