// Preprocessors of every kind on a small table with texts and gaps: a pipeline that learns, that is
// kept as data, and that goes with a model from training to prediction.
//
//   preprocessors
//
// Prints a row as it was and as the model sees it, and a prediction from raw rows.

#include <arrow/api.h>
#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

using namespace manta;

// A function of our own, with a name by which a checkpoint finds it again.
data::BatchPtr add_rate(const data::BatchPtr& batch) {
  auto fare = std::static_pointer_cast<arrow::DoubleArray>(batch->GetColumnByName("fare"));
  auto miles = std::static_pointer_cast<arrow::DoubleArray>(batch->GetColumnByName("miles"));
  arrow::DoubleBuilder rates;
  for (int64_t i = 0; i < batch->num_rows(); ++i) {
    bool known = fare->IsValid(i) && miles->IsValid(i) && miles->Value(i) > 0;
    (void)(known ? rates.Append(fare->Value(i) / miles->Value(i)) : rates.AppendNull());
  }
  return batch->AddColumn(batch->num_columns(), "rate", rates.Finish().ValueOrDie()).ValueOrDie();
}
static const auto rate = named("rate", add_rate);

std::vector<Json> some_trips() {
  const char* boroughs[] = {"Bronx", "Brooklyn", "Manhattan", "Queens"};
  std::vector<Json> trips;
  for (int i = 0; i < 240; ++i) {
    Json trip = {{"borough", boroughs[i * 7 % 4]},
                 {"vendor", i % 3 == 0 ? "CMT" : "VTS"},
                 {"miles", 0.5 + i % 17},
                 {"fare", 3 + 2.25 * (i % 17) + i % 5},
                 {"tip", i % 5 > 2 || i * 7 % 4 == 2 ? "good" : "none"}};
    if (i % 9 == 4) trip.erase("fare");  // unknown
    trips.push_back(trip);
  }
  return trips;
}

int main(int argc, char** argv) try {
  manta::init(argc, argv);
  if (argc > 1) {
    bool help = std::string(argv[1]) == "--help";
    (help ? std::cout : std::cerr) << "usage: preprocessors   (trains on 240 made-up trips)\n";
    return help ? 0 : 2;
  }
  Dataset trips = data::from_items(some_trips());

  // Labels become 0 and 1 before training, and words again after it.
  LabelEncoder labels("tip");
  Dataset dataset = labels.fit_transform(trips);

  Chain preprocessor(SimpleImputer({"fare"}),  // gaps
                     FunctionTransformer({"fare", "miles"}, rate, {.output_columns = {"rate"}}),
                     OneHotEncoder({"borough"}), OrdinalEncoder({"vendor"}),     // categories
                     StandardScaler({"fare", "rate"}), MinMaxScaler({"miles"}),  // scales
                     Concatenator({"borough", "vendor", "fare", "rate", "miles"},
                                  {.dtype = "float32", .flatten = true}));
  std::cout << "raw:\n";
  trips.show(1);
  std::cout << "as the model sees it:\n";
  preprocessor.fit_transform(dataset).show(1);

  // What it has learned is data: a file, not code.
  Json file = preprocessor.to_json();
  AnyPreprocessor same = AnyPreprocessor::from_json(file, "a file");
  std::cout << "kept in " << file.dump().size() << " bytes: " << same->to_string() << "\n";

  XGBoostTrainer trainer({.params = {{"objective", "binary:logistic"}, {"max_depth", 3}},
                          .label_column = "tip",
                          .num_boost_round = 10,
                          .datasets = {{"train", dataset}},
                          .scaling_config = {.num_workers = 2},
                          .run_config = {.verbose = false},
                          .preprocessor = preprocessor});
  Result result = trainer.fit();
  auto predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
  std::cout << "predictions from raw rows:\n";
  predictor.predict(trips.drop_columns({"tip"})).show(3);
  std::cout << "labels again: ";
  labels.inverse_transform(dataset).select_columns({"tip"}).show(1);
} catch (const Error& error) {
  std::cerr << "preprocessors: " << error.what() << std::endl;
  return 1;
}
