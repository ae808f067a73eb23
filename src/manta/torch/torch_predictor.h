#pragma once

#include <torch/types.h>

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "manta/predict/predictor.h"
#include "manta/torch/forward_inputs.h"
#include "manta/torch/torch_batches.h"
#include "manta/torch/torch_checkpoint.h"

namespace manta {

/// One input tensor of a model: columns side by side, [rows, columns].
struct PredictInput {
  std::vector<std::string> columns = {};
  torch::Dtype dtype = torch::kFloat32;
  Inexact inexact = Inexact::kRefused;  ///< See TorchBatch::columns.
};

struct TorchPredictorOptions {
  /// The columns of the model's input, in order, as float32. This or `inputs` is required, unless
  /// only tensors are given to `predict`.
  std::vector<std::string> feature_columns = {};
  /// Use this instead if the model has several inputs or other types: `{{.columns = {"user",
  /// "item"}, .dtype = torch::kInt64}, {.columns = {"price"}}}`.
  std::vector<PredictInput> inputs = {};
  /// Names the model, if the checkpoint has several.
  std::string slot = TorchCheckpoint::kModelSlot;
};

/// A trained model for prediction, in evaluation mode and without gradients. From rows it predicts
/// the column "predictions": a number of the model's own type, or a list of them if it returns
/// several per row.
///
///     auto predictor = TorchPredictor::from_checkpoint(checkpoint, Net(),
///                                                      {.feature_columns = {"a", "b"}});
class TorchPredictor final : public Predictor {
 public:
  /// Loads the checkpoint's weights into `model`: a module's holder, or a shared_ptr to a module.
  /// Its forward must take one to eight tensors and return one. Copies of the predictor share the
  /// model. Throws Error(kInvalidArgument) if the options contradict each other.
  template <class Model>
  static TorchPredictor from_checkpoint(const Checkpoint& checkpoint, Model model,
                                        const TorchPredictorOptions& options = {}) {
    return TorchPredictor(TorchCheckpoint(checkpoint), std::move(model), options,
                          checkpoint.get_preprocessor());
  }
  template <class Model>
  TorchPredictor(const TorchCheckpoint& checkpoint, Model model,
                 const TorchPredictorOptions& options = {}, AnyPreprocessor preprocessor = {})
      : TorchPredictor(options, std::move(preprocessor)) {
    if constexpr (detail::require_forward<Model, torch::Tensor>()) {
      checkpoint.load_model(options.slot, model);
      detail::module_of(model).eval();
      add_forward(model, std::make_index_sequence<detail::kMaxInputs>());
    }
  }

  using Predictor::predict;  // rows, by their columns
  /// One row of predictions for each row of inputs. No preprocessor is applied to tensors.
  torch::Tensor predict(const torch::Tensor& inputs) const;
  /// Likewise for a model with several inputs, all with the same number of rows. Throws
  /// Error(kInvalidArgument) unless the model takes that many inputs.
  torch::Tensor predict(const std::vector<torch::Tensor>& inputs) const;

 protected:
  data::BatchPtr predict_features(const data::BatchPtr& features) const override;

 private:
  using Forward = std::function<torch::Tensor(const std::vector<torch::Tensor>&)>;

  TorchPredictor(const TorchPredictorOptions& options, AnyPreprocessor preprocessor);

  template <class Model, size_t... i>
  void add_forward(const Model& model, std::index_sequence<i...>) {
    (add_forward_of(model, std::make_index_sequence<i + 1>()), ...);
  }
  template <class Model, size_t... i>
  void add_forward_of(const Model& model, std::index_sequence<i...>) {
    if constexpr (detail::forward_takes<Model, torch::Tensor, sizeof...(i)>) {
      forward_[sizeof...(i) - 1] =
          [model = Model(model)](const std::vector<torch::Tensor>& inputs) mutable {
            return torch::Tensor(model->forward(inputs[i]...));
          };
    }
  }

  /// For 1, 2, ... tensors; empty if the model does not take that many.
  std::array<Forward, detail::kMaxInputs> forward_;
  std::vector<PredictInput> inputs_;
};

}  // namespace manta
