#pragma once

#include <concepts>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/plan_function.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/checkpoint.h"

namespace manta {

/// A trained model that predicts from rows as they are before preprocessing. It applies the
/// checkpoint's preprocessor, then the model, so a row has the same features here and in training.
/// BatchPredictor runs it on a data set, serve behind HTTP.
///
/// To write one of your own, derive from it, define `predict_features` and a `static T
/// from_checkpoint(const Checkpoint&)`.
class Predictor {
 public:
  virtual ~Predictor() = default;

  /// Returns one row for each of `rows`, in the same order. The model's result is the column
  /// "predictions". `rows` may have columns that it does not need, in any order. Several threads
  /// may call it.
  ///
  /// Throws Error(kNotFound), which lists all columns that are missing, and Error(kInvalidArgument)
  /// for a column of a type that the model cannot use. Other errors are not the caller's fault.
  data::BatchPtr predict(const data::BatchPtr& rows) const;

  /// The columns that a row must have: those that the preprocessor looks at, and the model's
  /// features that the preprocessor does not make.
  const std::vector<std::string>& input_columns() const { return input_columns_; }

 protected:
  /// `preprocessor`: Checkpoint::get_preprocessor. `feature_columns`: what `predict_features` needs
  /// of its rows.
  Predictor(AnyPreprocessor preprocessor, const std::vector<std::string>& feature_columns);
  Predictor(const Predictor&) = default;
  Predictor& operator=(const Predictor&) = default;
  Predictor(Predictor&&) = default;
  Predictor& operator=(Predictor&&) = default;

  /// The model itself: one row for each of `features`, with the column "predictions". All feature
  /// columns are there, each once. The columns of the result, and their types, must not depend on
  /// the rows. Called by several threads at a time.
  virtual data::BatchPtr predict_features(const data::BatchPtr& features) const = 0;

 private:
  std::shared_ptr<const AnyPreprocessor> preprocessor_;  // shared by copies; never changes
  std::vector<std::string> input_columns_;
};

/// A predictor that needs nothing but a checkpoint to be made: `T::from_checkpoint(checkpoint)`.
template <class T>
concept PredictorFromCheckpoint = std::derived_from<T, Predictor> &&
    requires(const Checkpoint& checkpoint) {
  { T::from_checkpoint(checkpoint) } -> std::same_as<T>;
};

/// The checkpoint's model, ready to predict: `auto model =
/// load_model<XGBoostPredictor>(checkpoint)`. Throws Error(kInvalidArgument) if there is no
/// checkpoint, and what the class's own from_checkpoint throws.
template <PredictorFromCheckpoint T>
T load_model(const Checkpoint& checkpoint) {
  if (!checkpoint)
    throw Error(ErrorKind::kInvalidArgument,
                "load_model: there is no checkpoint; did the run report one?");
  return T::from_checkpoint(checkpoint);
}

}  // namespace manta
