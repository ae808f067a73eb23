#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/dataset.h"
#include "manta/predict/predictor_factory.h"

namespace manta {

namespace internal {
class PredictorRef;
}

struct BatchPredictOptions {
  /// Columns of the data set that are also part of the result, before the predictions.
  std::vector<std::string> keep_columns = {};
  int64_t batch_size = 4096;  ///< Rows that the model gets at a time, at most.
};

/// A trained model for whole data sets.
///
///     auto predictor = BatchPredictor::from_checkpoint<XGBoostPredictor>(result.checkpoint);
///     predictor.predict(test_set, {.keep_columns = {"id"}}).write_parquet("predictions");
class BatchPredictor {
 public:
  /// Loads the model, so a model that cannot be used is an error here. Verifies the checkpoint's
  /// checksums, so the checkpoint is read twice.
  template <class T>
  static BatchPredictor from_checkpoint(const Checkpoint& checkpoint) {
    return BatchPredictor(checkpoint, PredictorFactory::of<T>());
  }
  /// For predictors that need more than the checkpoint:
  ///
  ///     BatchPredictor::from_checkpoint(checkpoint, [](const Checkpoint& checkpoint) {
  ///       return TorchPredictor::from_checkpoint(checkpoint, Net(), {.feature_columns = {"x"}});
  ///     });
  ///
  /// A data set of its predictions can be stored if the function is `named`.
  static BatchPredictor from_checkpoint(const Checkpoint& checkpoint, PredictorFactory make) {
    return BatchPredictor(checkpoint, std::move(make));
  }

  /// A data set of predictions: one row for each row of `dataset`, in the same order, with the
  /// columns to keep and the model's column, "predictions". Nothing runs before you ask for rows.
  /// Then rows stream through the model on all processors, within the byte budget of any data set;
  /// only the columns that the model needs and those to keep are read. Further operations may
  /// follow. The data set may be the data of a training run: each process that reads it loads the
  /// model once.
  ///
  /// Throws Error(kNotFound) if the data set lacks a column.
  Dataset predict(const Dataset& dataset, const BatchPredictOptions& options = {}) const;

  /// The columns that a row must have.
  const std::vector<std::string>& input_columns() const;

 private:
  BatchPredictor(const Checkpoint& checkpoint, PredictorFactory make);

  std::shared_ptr<const internal::PredictorRef> predictor_;
};

namespace internal {

/// Stored plans may hold predictions, so code that reads plans must know that operation: this links
/// it.
bool link_predict_operation();
inline const bool predict_operation_linked = link_predict_operation();

}  // namespace internal
}  // namespace manta
