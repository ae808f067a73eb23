#pragma once

#include "manta/predict/batch_predictor.h"
#include "manta/predict/predictor_ref_internal.h"

namespace manta {

/// The data set with predictions in place of its rows. Throws Error(kInvalidArgument) if the
/// options make no sense, Error(kNotFound) if it lacks a column.
Dataset then_predict(const Dataset& dataset, const PredictorRef& predictor,
                     const BatchPredictOptions& options);

}  // namespace manta
