#pragma once

#include <torch/nn.h>
#include <torch/optim.h>

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

/// The weights of models, the state of optimizers and learning-rate schedulers, and whatever else a
/// loop needs to go on, as data: safetensors files and state.json. Nothing in them is ever
/// executed.
///
/// ```
/// train::report(metrics, TorchCheckpoint::from_model(model, optimizer).set("epoch", epoch));
/// ...
/// TorchCheckpoint saved(train::get_checkpoint());
/// saved.load_model(model);
/// saved.load_optimizer(optimizer);
/// int epoch = saved.get("epoch");
/// ```
/// Several of a kind have names, their slots:
/// ```
/// TorchCheckpoint()
///     .add_model("generator", g).add_optimizer("generator", g_optimizer)
///     .add_model("discriminator", d).add_optimizer("discriminator", d_optimizer);
/// ...
/// saved.load_model("discriminator", d);
/// ```
/// Without a name it is the slot "model", "optimizer" or "scheduler". A slot's name consists of
/// letters, digits, '_' and '-'; models, optimizers and schedulers have slots of their own, so one
/// name may serve for each. The files: `<slot>.safetensors` for a model; optimizer.safetensors, or
/// `<slot>.optimizer.safetensors`, for an optimizer.
///
/// To add to a slot that is taken is Error(kInvalidArgument); to load one that there is not is
/// Error(kNotFound) listing those that there are. "Model" is a torch::nn module, its holder, a
/// shared_ptr to one, or a DataParallel.
class TorchCheckpoint {
 public:
  /// Nothing yet; see add_model.
  TorchCheckpoint() = default;
  /// Refers to the model's tensors: they are copied when report() takes it.
  template <class Model>
  static TorchCheckpoint from_model(Model&& model) {
    TorchCheckpoint checkpoint;
    checkpoint.add_module(kModelSlot, detail::module_of(model));
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

  template <class Model>
  TorchCheckpoint& add_model(const std::string& slot, Model&& model) {
    add_module(slot, detail::module_of(model));
    return *this;
  }
  /// Also keeps the optimizer's state and options as they are now. Throws Error(kInvalidArgument)
  /// unless it is an Adam, AdamW, SGD, RMSprop or Adagrad.
  TorchCheckpoint& add_optimizer(const torch::optim::Optimizer& optimizer);
  TorchCheckpoint& add_optimizer(const std::string& slot, const torch::optim::Optimizer& optimizer);
  /// Also keeps how far the scheduler is: of StepLR and ReduceLROnPlateauScheduler, which are those
  /// of libtorch; others throw Error(kInvalidArgument). The learning rate is part of the optimizer.
  TorchCheckpoint& add_scheduler(const torch::optim::LRScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const std::string& slot,
                                 const torch::optim::LRScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const torch::optim::ReduceLROnPlateauScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const std::string& slot,
                                 const torch::optim::ReduceLROnPlateauScheduler& scheduler);
  /// Any JSON, infinities and NaN included. Throws Error(kInvalidArgument) for what could not be
  /// read again: texts that are not UTF-8, bytes, more than 998 levels.
  TorchCheckpoint& set(const std::string& key, Json value);

  /// Copies the weights and buffers into the model. Throws Error(kInvalidArgument) listing every
  /// name that is missing, not expected or of another shape; the model is unchanged then.
  template <class Model>
  void load_model(Model&& model) const {
    load_module(kModelSlot, detail::module_of(model));
  }
  template <class Model>
  void load_model(const std::string& slot, Model&& model) const {
    load_module(slot, detail::module_of(model));
  }
  /// See add_optimizer. Throws Error(kInvalidArgument) if it is of another type or for other
  /// parameters.
  void load_optimizer(torch::optim::Optimizer& optimizer) const;
  void load_optimizer(const std::string& slot, torch::optim::Optimizer& optimizer) const;
  /// See add_scheduler; load the optimizer as well. A ReduceLROnPlateauScheduler takes over the
  /// options, too. Throws Error(kInvalidArgument) if it is of another type, a StepLR with other
  /// options, or for another number of parameter groups.
  void load_scheduler(torch::optim::LRScheduler& scheduler) const;
  void load_scheduler(const std::string& slot, torch::optim::LRScheduler& scheduler) const;
  void load_scheduler(torch::optim::ReduceLROnPlateauScheduler& scheduler) const;
  void load_scheduler(const std::string& slot,
                      torch::optim::ReduceLROnPlateauScheduler& scheduler) const;

  bool has_model(const std::string& slot = kModelSlot) const { return models_.contains(slot); }
  bool has_optimizer(const std::string& slot = kOptimizerSlot) const {
    return optimizers_.contains(slot);
  }
  bool has_scheduler(const std::string& slot = kSchedulerSlot) const {
    return schedulers_.contains(slot);
  }

  /// What was `set`. Throws Error(kNotFound) listing the keys that there are.
  const Json& get(const std::string& key) const;
  const Json& state() const { return state_; }
  /// A model's weights and buffers by their names.
  const std::vector<NamedTensor>& tensors(const std::string& slot = kModelSlot) const;

  /// What train::report takes.
  std::shared_ptr<CheckpointSource> source(const TorchCheckpointOptions& options) const;
  operator std::shared_ptr<CheckpointSource>() const { return source({}); }

  /// The slots of what is given without a name.
  static constexpr const char* kModelSlot = "model";
  static constexpr const char* kOptimizerSlot = "optimizer";
  static constexpr const char* kSchedulerSlot = "scheduler";

 private:
  struct ModelTensors {
    std::vector<NamedTensor> tensors;
    size_t parameters = 0;  ///< The first of them; the others are buffers. 0 if it was loaded.
  };
  struct OptimizerData {
    Json description;
    std::vector<NamedTensor> tensors;
  };
  void add_module(const std::string& slot, const torch::nn::Module& module);
  void load_module(const std::string& slot, torch::nn::Module& module) const;

  std::map<std::string, ModelTensors> models_;
  std::map<std::string, OptimizerData> optimizers_;
  std::map<std::string, Json> schedulers_;
  Json state_ = Json::object();
};

}  // namespace manta
