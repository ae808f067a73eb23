#pragma once

#include <string>

#include "manta/base/json.h"

/// XGBoost on the taxi pipeline.
///   train_trees         {"end_to_end_s": seconds}: 20 rounds on two workers, file to model
///   make_trees          trains such a model on the trips and writes it to a folder: model.ubj for
///                       the peers, and the checkpoint
///   predict_with_trees  {"rows_per_s": [...]}: its predictions, file to numbers in the driver, a
///                       rate for each pass but the first
manta::Json train_trees(const std::string& trips);
void make_trees(const std::string& trips, const std::string& folder);
manta::Json predict_with_trees(const std::string& trips, const std::string& folder);
