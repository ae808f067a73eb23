#pragma once

#include "manta/base/json.h"

namespace manta::xgboost {

/// What each worker of an XGBoostTrainer runs. `config`: params, label_column, num_boost_round.
void boost(const Json& config);

}  // namespace manta::xgboost
