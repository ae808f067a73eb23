#pragma once

#include "manta/base/json.h"

namespace manta::xgboost {

/// The loop of each worker of an XGBoostTrainer. `config`: params, label_column, num_boost_round.
void boost(const Json& config);

}  // namespace manta::xgboost
