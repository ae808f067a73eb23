#pragma once

#include <functional>
#include <optional>
#include <string>

#include "manta/core/function.h"
#include "manta/predict/predictor_factory.h"
#include "manta/serve/options.h"

namespace manta::serve {

/// A deployment's model and options. It can be sent to another process of the same build.
struct DeploySpec {
  DeploymentOptions options;
  PredictorFactory factory;
  std::string checkpoint;
  Function adapter;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(options, factory, checkpoint, adapter);
  }
};

/// Throws Error(kInvalidArgument) that names the field. Fills in the route.
void check_deployment(DeploymentOptions& options);

/// Called with the outcome of something that takes a while.
using Done = std::function<void(const std::optional<Error>& error)>;

}  // namespace manta::serve
