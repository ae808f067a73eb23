#pragma once

#include <arrow/api.h>

#include <atomic>
#include <map>
#include <string>
#include <vector>

#include "manta/base/temporary_folder_internal.h"
#include "manta/io/arrow_status_internal.h"
#include "manta/predict/predictor.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/training_internal.h"

namespace manta {

/// For tests: a temporary folder with committed checkpoints, which may have any files.
class CheckpointMaker {
 public:
  Checkpoint make(const std::map<std::string, std::string>& files,
                  const AnyPreprocessor& preprocessor = {}) {
    CheckpointFolder folder(store_.staging_folder(0, ++index_, 0));
    for (const auto& [name, text] : files) folder.write(name, text);
    if (preprocessor) folder.write(train::kPreprocessorFile, preprocessor->to_json().dump());
    return store_.commit({.index = index_, .attempt = 0}, {{0, folder.files()}});
  }

 private:
  TemporaryFolder folder_;
  train::CheckpointStore store_{folder_.path(), {}};
  int64_t index_ = 0;
};

/// A model for tests: predictions are factor * x + y, of columns of float64; "line" holds the
/// factor.
class LinePredictor final : public Predictor {
 public:
  static LinePredictor from_checkpoint(const Checkpoint& checkpoint);
  static inline std::atomic<int> loaded = 0;  ///< How often it was loaded in this process.

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override;

 private:
  LinePredictor(AnyPreprocessor preprocessor, double factor)
      : Predictor(std::move(preprocessor), {"x", "y"}), factor_(factor) {}

  double factor_;
};

}  // namespace manta
