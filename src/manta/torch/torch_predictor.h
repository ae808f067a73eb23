#pragma once

#include <torch/torch.h>

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "manta/data/dataset.h"
#include "manta/torch/torch_checkpoint.h"

namespace manta {

struct PredictOptions {
  std::vector<std::string> feature_columns = {};  ///< The model's input, in this order. Required.
  std::vector<std::string> keep_columns = {};     ///< Also part of the result.
  int64_t batch_size = 4096;
};

/// A trained model for prediction: in evaluation mode and without gradients.
class TorchPredictor {
 public:
  /// Loads the checkpoint's weights into `model`, a module's holder or a shared_ptr to a module
  /// whose forward takes one tensor and returns one. Copies of the predictor share the model.
  template <class Model>
  static TorchPredictor from_checkpoint(const Checkpoint& checkpoint, Model model) {
    return TorchPredictor(TorchCheckpoint(checkpoint), std::move(model));
  }
  template <class Model>
  TorchPredictor(const TorchCheckpoint& checkpoint, Model model) {
    checkpoint.load_model(model);
    detail::module_of(model).eval();
    forward_ = [model = std::move(model)](const torch::Tensor& inputs) mutable {
      return model->forward(inputs);
    };
  }

  /// One row of predictions for each row of inputs.
  torch::Tensor predict(const torch::Tensor& inputs) const;
  /// One row for each row of `rows`: the columns to keep, and "predictions" (a number, or a list of
  /// them if the model gives several).
  std::shared_ptr<arrow::RecordBatch> predict(const std::shared_ptr<arrow::RecordBatch>& rows,
                                              const PredictOptions& options) const;
  /// Likewise for a whole data set, in this process, with data read ahead.
  std::shared_ptr<arrow::Table> predict(const Dataset& dataset,
                                        const PredictOptions& options) const;

 private:
  std::function<torch::Tensor(const torch::Tensor&)> forward_;
};

}  // namespace manta
