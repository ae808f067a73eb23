#pragma once

#include <torch/torch.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/safetensors.h"
#include "manta/train/checkpoint.h"

namespace manta {

namespace detail {

inline torch::nn::Module& module_of(torch::nn::Module& module) { return module; }
template <class M>
torch::nn::Module& module_of(const train::DataParallel<M>& model) {
  return model.base();
}
template <class M>
requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, M> torch::nn::Module& module_of(
    const M& holder) {
  return *holder.ptr();
}
template <class M>
requires std::is_base_of_v<torch::nn::Module, M> torch::nn::Module& module_of(
    const std::shared_ptr<M>& module) {
  return *module;
}

}  // namespace detail

struct TorchCheckpointOptions {
  /// Only rank 0 writes: the others' weights are the same. -1: this worker's own rank.
  int rank = -1;
};

/// A model's weights, an optimizer's state and whatever else a loop needs to go on, as data: the
/// files model.safetensors, optimizer.safetensors and state.json. Nothing in them is ever executed.
///
/// ```
/// train::report(metrics, TorchCheckpoint::from_model(model, optimizer).set("epoch", epoch));
/// ...
/// TorchCheckpoint saved(train::get_checkpoint());
/// saved.load_model(model);
/// saved.load_optimizer(optimizer);
/// int epoch = saved.get("epoch");
/// ```
/// "Model" is a torch::nn module, its holder, a shared_ptr to one, or a DataParallel.
class TorchCheckpoint {
 public:
  /// Refers to the model's tensors: they are copied when report() takes it.
  template <class Model>
  static TorchCheckpoint from_model(Model&& model) {
    TorchCheckpoint checkpoint;
    checkpoint.add_model(detail::module_of(model));
    return checkpoint;
  }
  template <class Model>
  static TorchCheckpoint from_model(Model&& model, const torch::optim::Optimizer& optimizer) {
    return std::move(from_model(model).add_optimizer(optimizer));
  }

  /// Maps the files of a committed checkpoint. Throws Error(kNotFound) or (kCorrupt) naming the
  /// file.
  explicit TorchCheckpoint(const Checkpoint& checkpoint);
  static TorchCheckpoint from_checkpoint(const Checkpoint& checkpoint) {
    return TorchCheckpoint(checkpoint);
  }

  /// Also keeps the optimizer's state and options as they are now. Throws Error(kInvalidArgument)
  /// unless it is an Adam, AdamW, SGD, RMSprop or Adagrad.
  TorchCheckpoint& add_optimizer(const torch::optim::Optimizer& optimizer);
  TorchCheckpoint& set(const std::string& key, Json value);

  /// Copies the weights and buffers into the model. Throws Error(kInvalidArgument) listing every
  /// name that is missing, not expected or of another shape; the model is unchanged then.
  template <class Model>
  void load_model(Model&& model) const {
    load_module(detail::module_of(model));
  }
  /// See add_optimizer. Throws Error(kNotFound) if the checkpoint has none, Error(kInvalidArgument)
  /// if it is of another type or for other parameters.
  void load_optimizer(torch::optim::Optimizer& optimizer) const;
  bool has_optimizer() const { return !optimizer_.is_null(); }

  /// What was `set`. Throws Error(kNotFound) listing the keys that there are.
  const Json& get(const std::string& key) const;
  const Json& state() const { return state_; }
  /// The weights and buffers by their names.
  const std::vector<NamedTensor>& tensors() const { return model_; }

  /// What train::report takes.
  std::shared_ptr<CheckpointSource> source(const TorchCheckpointOptions& options) const;
  operator std::shared_ptr<CheckpointSource>() const { return source({}); }

 private:
  TorchCheckpoint() = default;
  void add_model(const torch::nn::Module& module);
  void load_module(torch::nn::Module& module) const;

  std::vector<NamedTensor> model_;
  Json optimizer_;  ///< Null: none.
  std::vector<NamedTensor> optimizer_tensors_;
  Json state_ = Json::object();
};

}  // namespace manta
