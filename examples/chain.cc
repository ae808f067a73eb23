// Preprocessors one after the other, fitted once and kept with the model: scales two columns of the
// breast cancer table, trains XGBoost on two workers, and predicts from raw rows, once with the
// model itself and once over the whole data set.
//
//   chain
//
// Prints the metrics, what the scaler has learned, and predictions.

#include <arrow/record_batch.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

using namespace manta;

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr) << "usage: chain   (trains on the breast cancer table)\n";
    return help ? 0 : 2;
  }
  Dataset dataset = data::read_csv(BREAST_CANCER_CSV);
  Dataset predict_ds = dataset.drop_columns({"target"});

  Chain preprocessor(StandardScaler({"worst radius", "worst area"}), Repartitioner(2));
  XGBoostTrainer trainer({.params = {{"tree_method", "approx"},
                                     {"objective", "binary:logistic"},
                                     {"eval_metric", {"logloss", "error"}}},
                          .label_column = "target",
                          .scaling_config = {.num_workers = 2}});
  Result result = trainer.fit(dataset, preprocessor);
  std::cout << result.metrics.dump() << "\n"
            << result.checkpoint.get_preprocessor()->to_string() << std::endl;

  auto this_model = load_model<XGBoostPredictor>(result.checkpoint);
  data::BatchPtr predicted = this_model.predict(predict_ds.take_batch(3));
  std::cout << predicted->ToString() << std::endl;

  auto predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
  predictor.predict(predict_ds).show(3);
} catch (const Error& error) {
  std::cerr << "chain: " << error.what() << std::endl;
  return 1;
}
