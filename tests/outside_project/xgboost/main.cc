#include <manta/manta.h>
#include <manta/xgboost.h>

#include <iostream>

int main(int argc, char** argv) {
  manta::init(argc, argv);
  std::vector<manta::Json> rows;
  for (int i = 0; i < 42; ++i) rows.push_back({{"x", i}, {"y", i % 2}});
  manta::XGBoostTrainer trainer({.label_column = "y",
                                 .datasets = {{"train", manta::data::from_items(rows)}},
                                 .run_config = {.storage_path = argv[1], .verbose = false}});
  std::cout << trainer.fit().rows.at("train") << "\n";
}
