#pragma once

#include <memory>
#include <mutex>
#include <string>

#include "manta/base/names_internal.h"
#include "manta/predict/predictor_factory.h"

namespace manta::internal {

/// A predictor of a checkpoint. It is made when it is first used, once for all copies in a process.
/// It can be sent to another process of the run, where it is made again.
class PredictorRef {
 public:
  PredictorRef() = default;
  PredictorRef(PredictorFactory factory, std::string checkpoint);

  /// Verifies the checkpoint and loads it, if that has not happened yet. Thread-safe.
  const Predictor& get() const;
  const PredictorFactory& factory() const { return factory_; }
  const std::string& checkpoint() const { return checkpoint_; }
  /// Why a file cannot store it; empty if a file can.
  std::string why_not_stored() const;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(factory_, checkpoint_);
  }

 private:
  struct Loaded {
    std::mutex mutex;
    std::unique_ptr<const Predictor> predictor;
  };

  PredictorFactory factory_;
  std::string checkpoint_;
  std::shared_ptr<Loaded> loaded_ = std::make_shared<Loaded>();
};

}  // namespace manta::internal
