#include "manta/base/error_internal.h"
#include "manta/predict/predictor_ref_internal.h"

namespace manta {

PredictorRef::PredictorRef(PredictorFactory factory, std::string checkpoint)
    : factory_(std::move(factory)), checkpoint_(std::move(checkpoint)) {}

const Predictor& PredictorRef::get() const {
  std::lock_guard lock(loaded_->mutex);
  if (!loaded_->predictor) {
    loaded_->predictor = factory_.make(Checkpoint::from_uri(checkpoint_));
  }
  return *loaded_->predictor;
}

std::string PredictorRef::why_not_stored() const {
  if (!factory_.name().empty()) return {};
  return str("the function ", factory_.to_string(),
             " that makes a predictor has no name to find it by. Define `static const auto make = "
             "manta::named(\"make\", function);` at namespace scope and pass make instead");
}

}  // namespace manta
