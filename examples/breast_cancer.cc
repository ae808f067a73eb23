// From a CSV file to a model behind a URL: reads the breast cancer table, trains XGBoost on two
// workers, tunes it, predicts in batch, serves the best model, and asks it once.
//
//   breast_cancer [--serve | --detached] [--port 8000] [file.csv]     (--port 0: any that is free)
//   breast_cancer --shutdown
//
// Prints the metrics, the best trial, a table of predictions, the URL and what it answered. With
// --serve it goes on serving until Ctrl-C. With --detached the URL goes on answering after the
// program has ended, until it is run with --shutdown.

#include <arrow/api.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <CLI/CLI.hpp>
#include <iostream>

#include "http_post.h"

using namespace manta;

// The first row as a client would send it: {"mean radius": [17.99], ...}.
std::string first_row(const Dataset& dataset) {
  Json columns;
  auto table = dataset.take(1);
  for (const auto& field : table->schema()->fields()) {
    auto column = table->GetColumnByName(field->name())->chunk(0);
    columns[field->name()] = {std::static_pointer_cast<arrow::DoubleArray>(column)->Value(0)};
  }
  return columns.dump();
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  CLI::App app("Trains, tunes and serves a model of the breast cancer table");
  std::string path = BREAST_CANCER_CSV;
  bool keep_serving = false, detached = false, shut_down = false;
  int port = 8000;
  app.add_option("file", path, "CSV file with the 30 features and the column target");
  auto* serve_flag = app.add_flag("--serve", keep_serving, "serve until Ctrl-C");
  app.add_flag("--detached", detached, "serve on after the program has ended")
      ->excludes(serve_flag);
  app.add_flag("--shutdown", shut_down, "end what --detached has left");
  app.add_option("--port", port, "0: any that is free");
  CLI11_PARSE(app, argc, argv);

  if (shut_down) {
    serve::start({.detached = true});  // joins the one that serves
    serve::shutdown();
    return 0;
  }

  Dataset dataset = data::read_csv(path);
  auto [train_dataset, valid_dataset] = dataset.train_test_split(0.2, {.shuffle = true, .seed = 1});
  Dataset test_dataset = valid_dataset.drop_columns({"target"});
  StandardScaler preprocessor({"mean radius", "mean texture"});

  XGBoostTrainer trainer(
      {.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
       .label_column = "target",
       .num_boost_round = 20,
       .datasets = {{"train", train_dataset}, {"valid", valid_dataset}},
       .scaling_config = {.num_workers = 2},
       .preprocessor = preprocessor});
  Result result = trainer.fit();
  std::cout << "metrics: " << result.metrics.dump() << std::endl;

  Tuner tuner(trainer,
              {.param_space = {.params = {{"max_depth", tune::randint(1, 9)}}},
               .tune_config = {.metric = "train-logloss", .mode = "min", .num_samples = 2}});
  ResultGrid result_grid = tuner.fit();
  Result best_result = result_grid.get_best_result();
  std::cout << "best: " << best_result.config.dump() << " " << best_result.metrics.dump()
            << std::endl;

  Checkpoint checkpoint = best_result.checkpoint;
  auto batch_predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(checkpoint);
  Dataset predicted_probabilities = batch_predictor.predict(test_dataset);
  predicted_probabilities.show();

  serve::start({.detached = detached, .http = {.port = port}});
  auto deployment = PredictorDeployment::options({.name = "XGBoostService"});
  deployment.deploy<XGBoostPredictor>(checkpoint, {.http_adapter = serve::json_columns});
  std::cout << deployment.url() << std::endl;

  std::cout << "answer: " << http_post(deployment.url(), first_row(test_dataset)) << std::endl;
  if (keep_serving) serve::wait();
} catch (const Error& error) {
  std::cerr << "breast_cancer: " << error.what() << std::endl;
  return 1;
}
