// Learns which tumours are malignant, on two workers, predicts those that it has not seen, and goes
// on with the model.
//
//   trees [breast_cancer.csv]
//
// Prints the metrics, three predictions, how many are right (110 or more of 114), and the loss
// after ten more rounds.

#include <arrow/api.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

using namespace manta;

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  std::string path = argc > 1 ? argv[1] : "examples/data/breast_cancer.csv";
  if (argc > 2 || path.starts_with("-")) {
    bool help = path == "--help";
    (help ? std::cout : std::cerr) << "usage: trees [breast_cancer.csv]\n";
    return help ? 0 : 2;
  }
  auto [train_set, valid_set] =
      data::read_csv(path).train_test_split(0.2, {.shuffle = true, .seed = 1});
  XGBoostTrainer trainer(
      {.params = {{"objective", "binary:logistic"}, {"eval_metric", {"logloss", "error"}}},
       .label_column = "target",
       .num_boost_round = 20,
       .datasets = {{"train", train_set}, {"valid", valid_set}},
       .scaling_config = {.num_workers = 2, .resources_per_worker = {.cpus = 0.5}},
       .run_config = {.failure_config = {.max_failures = 3}},
       .preprocessor = StandardScaler({"mean radius", "mean texture"})});
  Result result = trainer.fit();
  std::cout << result.metrics.dump(2) << "\n" << result.rows.at("train") << " rows\n";

  auto predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
  Dataset predictions = predictor.predict(valid_set, {.keep_columns = {"target"}});
  predictions.show(3);
  int64_t right = predictions.filter((col("predictions") > 0.5) == (col("target") > 0)).count();

  XGBoostTrainerOptions more = trainer.options();
  more.num_boost_round = 30;  // 10 more
  more.resume_from_checkpoint = result.checkpoint;
  Result longer = XGBoostTrainer(more).fit();
  std::cout << right << " of " << valid_set.count()
            << " are right; after 10 more rounds the loss is " << longer.metrics.at("train-logloss")
            << std::endl;
} catch (const Error& error) {
  std::cerr << "trees: " << error.what() << std::endl;
  return 1;
}
