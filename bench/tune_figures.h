#pragma once

#include <string>

#include "manta/base/json.h"

/// An experiment, from fit() to its results: {"fit_s": seconds, "trials_per_s": rate}.
///   tune_empty    of a function that does nothing
///   tune_xgboost  of an XGBoostTrainer with one worker, 20 rounds on a table like the examples'
///                 breast_cancer.csv
manta::Json tune_empty(int trials);
manta::Json tune_xgboost(const std::string& table, int trials);
