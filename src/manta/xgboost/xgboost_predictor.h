#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/predict/predictor.h"

namespace manta {

namespace xgboost {
class Booster;
struct FeatureColumn;
}  // namespace xgboost

/// A model of XGBoostTrainer, or any other model.ubj of XGBoost that has the names of its features.
/// The column "predictions" is what XGBoost predicts for the objective: a float32 number, such as
/// the probability of binary:logistic, or a list of numbers, such as those of multi:softprob.
///
/// Features are found by their names, and are numbers or booleans as in training; nulls and NaN are
/// missing values. Each call runs on one thread: threads that call at the same time do not wait for
/// each other.
class XGBoostPredictor final : public Predictor {
 public:
  /// Throws Error(kCorrupt) naming the file if it is not a model, Error(kInvalidArgument) if the
  /// model does not name its features.
  static XGBoostPredictor from_checkpoint(const Checkpoint& checkpoint);

  /// What it was trained to predict; empty if that is not known.
  const std::string& label_column() const { return label_column_; }
  /// The columns that the model looks at. A vector is one column, but several features of the
  /// model.
  const std::vector<std::string>& feature_columns() const { return features_; }

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override;

 private:
  XGBoostPredictor(AnyPreprocessor preprocessor, std::shared_ptr<xgboost::Booster> booster,
                   std::vector<xgboost::FeatureColumn> columns);

  std::shared_ptr<xgboost::Booster> booster_;
  std::shared_ptr<const std::vector<xgboost::FeatureColumn>> columns_;
  std::vector<std::string> features_;  // their names
  std::string label_column_;
  int64_t width_ = 0;  // numbers of a prediction; 0: not a list
};

}  // namespace manta
