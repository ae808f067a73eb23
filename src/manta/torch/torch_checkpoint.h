#pragma once

#include <torch/nn.h>
#include <torch/optim.h>

#include <concepts>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/torch/data_parallel.h"
#include "manta/torch/grad_scaler.h"
#include "manta/torch/lr_schedule.h"
#include "manta/torch/safetensors.h"
#include "manta/torch/state_dict.h"
#include "manta/train/checkpoint.h"

namespace manta {

namespace detail {

struct StoredShards;  // what each worker keeps its share of

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
  /// Only rank 0 writes, because the other ranks have the same weights. -1: this worker's own rank.
  int rank = -1;
};

struct LoadModelOptions {
  /// false: loads the tensors that fit by name and shape, such as all except a changed head, and
  /// leaves the rest of the model as it is.
  bool strict = true;
};

/// What load_model did, by the names of weights and buffers.
struct LoadReport {
  std::vector<std::string> loaded;
  std::vector<std::string> missing;      ///< In the model, not in the checkpoint.
  std::vector<std::string> unexpected;   ///< In the checkpoint, not in the model.
  std::vector<std::string> other_shape;  ///< In both, but not equal in shape: not loaded.

  bool complete() const { return missing.empty() && unexpected.empty() && other_shape.empty(); }
};

/// The weights of models, the state of optimizers and learning-rate schedulers, and anything else
/// that a loop needs to resume, as data: safetensors files and state.json. Nothing in them is ever
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
/// If there are several of a kind, each has a name, its slot:
/// ```
/// TorchCheckpoint()
///     .add_model("generator", g).add_optimizer("generator", g_optimizer)
///     .add_model("discriminator", d).add_optimizer("discriminator", d_optimizer);
/// ...
/// saved.load_model("discriminator", d);
/// ```
/// Without a name, the slot is "model", "optimizer" or "scheduler". A slot's name consists of
/// letters, digits, '_' and '-'. Models, optimizers and schedulers have separate slots, so each may
/// use the same name. The files are `<slot>.safetensors` for a model; optimizer.safetensors, or
/// `<slot>.optimizer.safetensors`, for an optimizer.
///
/// With a sharded model (PrepareModelOptions::sharded), every worker writes its own share of the
/// model and its optimizer, to files such as model.shard-0-of-4.safetensors. So every worker must
/// give such a checkpoint to report(). When loading, every worker reads what it needs of all
/// shares, however many there are. A model that is not sharded can load such a checkpoint, and the
/// reverse. A checkpoint that was loaded is written as a whole again, by rank 0.
///
/// Adding to a slot that is taken is Error(kInvalidArgument). Loading a slot that does not exist is
/// Error(kNotFound), which lists the existing ones. "Model" is a torch::nn module, its holder, a
/// shared_ptr to one, or a DataParallel.
class TorchCheckpoint {
 public:
  /// Empty; see add_model.
  TorchCheckpoint() = default;
  /// Refers to the model's tensors; report() copies them.
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

  /// A model's weights as Python has saved them, for `load_model` to load by name, all or a part.
  /// See read_state_dict.
  static TorchCheckpoint from_state_dict(const std::string& path,
                                         const ReadStateDictOptions& options = {});
  /// Writes a model's weights and buffers as a file that Python's
  /// `model.load_state_dict(torch.load(path, weights_only=True))` reads. See write_state_dict.
  void to_state_dict(const std::string& path, const std::string& slot = kModelSlot) const {
    write_state_dict(path, tensors(slot));
  }

  template <class Model>
  TorchCheckpoint& add_model(const std::string& slot, Model&& model) {
    add_module(slot, detail::module_of(model));
    return *this;
  }
  /// Also keeps the optimizer's current state and options. Throws Error(kInvalidArgument) unless it
  /// is one of libtorch: an Adam, AdamW, SGD, RMSprop, Adagrad or LBFGS.
  TorchCheckpoint& add_optimizer(const torch::optim::Optimizer& optimizer);
  TorchCheckpoint& add_optimizer(const std::string& slot, const torch::optim::Optimizer& optimizer);
  /// Also keeps the progress of the scheduler: a StepLR or ReduceLROnPlateauScheduler, the two in
  /// libtorch, or a StatefulScheduler, which Manta's schedulers are and yours may be. Any other
  /// throws Error(kInvalidArgument). The learning rate itself is in the optimizer.
  TorchCheckpoint& add_scheduler(const torch::optim::LRScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const std::string& slot,
                                 const torch::optim::LRScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const torch::optim::ReduceLROnPlateauScheduler& scheduler);
  TorchCheckpoint& add_scheduler(const std::string& slot,
                                 const torch::optim::ReduceLROnPlateauScheduler& scheduler);
  template <std::derived_from<StatefulScheduler> Scheduler>
  TorchCheckpoint& add_scheduler(const Scheduler& scheduler) {
    return add_stateful(kSchedulerSlot, scheduler);
  }
  template <std::derived_from<StatefulScheduler> Scheduler>
  TorchCheckpoint& add_scheduler(const std::string& slot, const Scheduler& scheduler) {
    return add_stateful(slot, scheduler);
  }
  /// Also keeps the scale of mixed precision and how long it has lasted.
  TorchCheckpoint& add_scaler(const train::GradScaler& scaler,
                              const std::string& slot = kScalerSlot);
  /// Any JSON, infinities and NaN included. Throws Error(kInvalidArgument) for values that could
  /// not be read back: texts that are not UTF-8, bytes, more than 998 levels.
  TorchCheckpoint& set(const std::string& key, Json value);

  /// Copies the weights and buffers into the model. Throws Error(kInvalidArgument) listing every
  /// name that is missing, unexpected or of another shape; then the model is unchanged. With
  /// `{.strict = false}` it loads the tensors that fit, and the report says which did not. If no
  /// tensor fits, it is still an error.
  template <class Model>
  LoadReport load_model(Model&& model, const LoadModelOptions& options = {}) const {
    return load_module(kModelSlot, detail::module_of(model), options);
  }
  template <class Model>
  LoadReport load_model(const std::string& slot, Model&& model,
                        const LoadModelOptions& options = {}) const {
    return load_module(slot, detail::module_of(model), options);
  }
  /// See add_optimizer. Throws Error(kInvalidArgument) if the optimizer is of another type or has
  /// other parameters.
  void load_optimizer(torch::optim::Optimizer& optimizer) const;
  void load_optimizer(const std::string& slot, torch::optim::Optimizer& optimizer) const;
  /// See add_scheduler; load the optimizer as well. A ReduceLROnPlateauScheduler also takes over
  /// the options. Throws Error(kInvalidArgument) if the scheduler is of another type, is a StepLR
  /// with other options, or has another number of parameter groups.
  void load_scheduler(torch::optim::LRScheduler& scheduler) const;
  void load_scheduler(const std::string& slot, torch::optim::LRScheduler& scheduler) const;
  void load_scheduler(torch::optim::ReduceLROnPlateauScheduler& scheduler) const;
  void load_scheduler(const std::string& slot,
                      torch::optim::ReduceLROnPlateauScheduler& scheduler) const;

  template <std::derived_from<StatefulScheduler> Scheduler>
  void load_scheduler(Scheduler& scheduler) const {
    load_stateful(kSchedulerSlot, scheduler);
  }
  template <std::derived_from<StatefulScheduler> Scheduler>
  void load_scheduler(const std::string& slot, Scheduler& scheduler) const {
    load_stateful(slot, scheduler);
  }
  /// See add_scaler. The scaler then has the options of the checkpoint, as in Python.
  void load_scaler(train::GradScaler& scaler, const std::string& slot = kScalerSlot) const;

  bool has_model(const std::string& slot = kModelSlot) const { return models_.contains(slot); }
  bool has_optimizer(const std::string& slot = kOptimizerSlot) const {
    return optimizers_.contains(slot);
  }
  bool has_scheduler(const std::string& slot = kSchedulerSlot) const {
    return schedulers_.contains(slot);
  }

  bool has_scaler(const std::string& slot = kScalerSlot) const { return scalers_.contains(slot); }

  /// A value that was `set`. Throws Error(kNotFound) listing the existing keys.
  const Json& get(const std::string& key) const;
  const Json& state() const { return state_; }
  /// A model's weights and buffers with their names. For a sharded model it puts the workers'
  /// shares together in memory; `load_model` does not.
  const std::vector<NamedTensor>& tensors(const std::string& slot = kModelSlot) const;

  /// What train::report takes.
  std::shared_ptr<CheckpointSource> source(const TorchCheckpointOptions& options) const;
  operator std::shared_ptr<CheckpointSource>() const { return source({}); }

  /// The slots that are used if no name is given.
  static constexpr const char* kModelSlot = "model";
  static constexpr const char* kOptimizerSlot = "optimizer";
  static constexpr const char* kSchedulerSlot = "scheduler";
  static constexpr const char* kScalerSlot = "scaler";

 private:
  struct ModelTensors {
    std::vector<NamedTensor> tensors;
    size_t parameters = 0;  ///< How many come first; the rest are buffers. 0 if loaded.
  };
  struct OptimizerData {
    Json description;
    std::vector<NamedTensor> tensors;
  };
  void add_module(const std::string& slot, const torch::nn::Module& module);
  LoadReport load_module(const std::string& slot, torch::nn::Module& module,
                         const LoadModelOptions& options) const;

  std::map<std::string, ModelTensors> models_;
  std::map<std::string, OptimizerData> optimizers_;
  /// The part of a sharded model or of its optimizer, by slot; beside what is not split.
  using Shards = std::map<std::string, std::shared_ptr<detail::StoredShards>>;
  Shards model_shards_;
  Shards optimizer_shards_;
  std::vector<torch::Tensor> stepped_;  ///< Parameters that an optimizer keeps something of.
  mutable std::map<std::string, std::vector<NamedTensor>> whole_models_;  ///< See tensors().

  TorchCheckpoint& add_stateful(const std::string& slot, const StatefulScheduler& scheduler);
  void load_stateful(const std::string& slot, StatefulScheduler& scheduler) const;

  std::map<std::string, Json> schedulers_;
  std::map<std::string, Json> scalers_;
  Json state_ = Json::object();
};

}  // namespace manta
