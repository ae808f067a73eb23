#include "manta/predict/batch_predictor.h"

#include "manta/predict/operation_predict_internal.h"

namespace manta {

BatchPredictor::BatchPredictor(const Checkpoint& checkpoint, PredictorFactory make)
    : predictor_(std::make_shared<PredictorRef>(std::move(make), checkpoint.uri())) {
  predictor_->get();
}

const std::vector<std::string>& BatchPredictor::input_columns() const {
  return predictor_->get().input_columns();
}

Dataset BatchPredictor::predict(const Dataset& dataset, const BatchPredictOptions& options) const {
  return then_predict(dataset, *predictor_, options);
}

}  // namespace manta
