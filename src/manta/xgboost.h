#pragma once

/// Gradient boosted trees with XGBoost. Needs the target manta::xgboost.
#include "manta/xgboost/xgboost_predictor.h"
#include "manta/xgboost/xgboost_trainer.h"
