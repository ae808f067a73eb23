#pragma once

#include <string>

#include "manta/predict/predictor_factory.h"
#include "manta/serve/options.h"

namespace manta::serve {

/// A trained model behind HTTP. It is a value that only describes a deployment until `deploy` is
/// called.
///
/// ```
/// serve::start();
/// auto deployment = PredictorDeployment::options({.name = "XGBoostService"});
/// deployment.deploy<XGBoostPredictor>(checkpoint, {.http_adapter = serve::json_columns});
/// std::cout << deployment.url() << "\n";       // curl -d '{"mean radius": [17.9], ...}' <url>
/// ```
///
/// The answer is an object with an array for each column that the predictor returns, so
/// `{"predictions":[0.98]}`.
class PredictorDeployment {
 public:
  static PredictorDeployment options(DeploymentOptions options) {
    return PredictorDeployment(std::move(options));
  }

  /// Starts the replicas, each of which makes its predictor from the checkpoint, and returns when
  /// all are healthy. The checkpoint's folder must stay where it is. If the checkpoint is at an
  /// address, each replica fetches a copy.
  ///
  /// If there is a deployment of that name, it is replaced, replica by replica: a new one answers
  /// before an old one stops taking requests, so no request fails. (This needs room for one more
  /// replica. If there is no room and several replicas serve, one old replica ends first.)
  ///
  /// Throws the error of a model that cannot be loaded; Error(kTimeout) after `deploy_timeout`,
  /// which says what the replicas wait for; Error(kResources) if this machine can never hold a
  /// replica. In these cases the deployment that was there goes on serving.
  template <class P>
  void deploy(const Checkpoint& checkpoint, const DeployOptions& options = {}) const {
    deploy(PredictorFactory::of<P>(), checkpoint, options);
  }
  /// Likewise for a predictor that needs more than a checkpoint, made by a plain function:
  /// `deploy(make_torch, checkpoint)` with `TorchPredictor make_torch(const Checkpoint&)`.
  void deploy(const PredictorFactory& factory, const Checkpoint& checkpoint,
              const DeployOptions& options = {}) const;

  /// The URL at which it answers: "http://127.0.0.1:8000/XGBoostService". Throws Error(kNotFound)
  /// if it is not deployed.
  std::string url() const;
  const std::string& name() const { return options_.name; }

 private:
  explicit PredictorDeployment(DeploymentOptions options);

  DeploymentOptions options_;
};

}  // namespace manta::serve

namespace manta {
using serve::PredictorDeployment;
}
