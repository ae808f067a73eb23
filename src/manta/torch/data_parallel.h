#pragma once

#include <torch/nn.h>

#include <memory>
#include <string>
#include <typeinfo>
#include <utility>
#include <vector>

#include "manta/torch/gradient_sync.h"
#include "manta/torch/output_tensors.h"
#include "manta/torch/sharded_sync.h"

namespace manta::train {

namespace detail {

// A module is owned by its holder, or by a shared_ptr if it has none.
template <class M, bool is_holder = std::is_base_of_v<torch::detail::ModuleHolderIndicator, M>>
struct ModuleTraits {
  static_assert(std::is_base_of_v<torch::nn::Module, M>,
                "manta: prepare_model takes a torch::nn module or its holder (TORCH_MODULE)");
  using Impl = M;
  using Handle = std::shared_ptr<M>;
  static M& wrapped(Handle& handle) { return *handle; }
};
template <class M>
struct ModuleTraits<M, true> {
  using Impl = typename M::ContainedType;
  using Handle = M;
  static M& wrapped(Handle& handle) { return handle; }
};

}  // namespace detail

/// While it lives, backward keeps this worker's gradients local. The first backward after it
/// averages everything that was accumulated. Put both forward and backward inside.
class [[nodiscard]] NoSync {
 public:
  explicit NoSync(std::shared_ptr<detail::ModelSync> sync) : sync_(std::move(sync)) {
    if (sync_) sync_->pause();
  }
  NoSync(NoSync&& other) noexcept = default;
  NoSync& operator=(NoSync&&) = delete;
  ~NoSync() {
    if (sync_) sync_->resume();
  }

 private:
  std::shared_ptr<detail::ModelSync> sync_;
};

/// A module whose gradients are averaged over all workers in each backward. Use it like the module
/// itself; call module() for functions that it does not have. It is a handle: copies are the same
/// model.
///
/// A sharded one (PrepareModelOptions::sharded) is split over the workers. Its parameters() are
/// this worker's shares, of one dimension; give these to the optimizer, and do not use module().
/// The result is the same with optimizers that treat every number separately: all of libtorch
/// except LBFGS.
///
/// With one worker it costs nothing. Forward may take and return anything. But with uneven slices,
/// and for models above `flat_limit_bytes`, Manta must be able to find the tensors in the output.
/// It finds them in tensors, and in tuples, pairs, vectors, arrays, maps and optionals of tensors.
template <class M>
class DataParallel {
  using Traits = detail::ModuleTraits<M>;

 public:
  using Impl = typename Traits::Impl;
  using Handle = typename Traits::Handle;

  /// Collective: all workers must call it. Every worker starts from rank 0's parameters and
  /// buffers. Throws Error(kInvalidArgument) naming the rank if the workers' models differ.
  DataParallel(Handle module, SyncOptions options) : module_(std::move(module)) {
    if (options.world_size > 1 && options.model.sharded) {
      sharded_ = std::make_shared<detail::ShardedSync>(*module_, std::move(options));
      sync_ = sharded_;
    } else if (options.world_size > 1) {
      sync_ = std::make_shared<detail::GradientSync>(*module_, std::move(options));
    }
  }

  const DataParallel* operator->() const { return this; }

  template <class... Arguments>
  auto operator()(Arguments&&... arguments) const {
    return forward(std::forward<Arguments>(arguments)...);
  }

  template <class... Arguments>
  auto forward(Arguments&&... arguments) const {
    using Output = std::decay_t<decltype(impl().forward(std::forward<Arguments>(arguments)...))>;
    if constexpr (std::is_void_v<Output>) {
      impl().forward(std::forward<Arguments>(arguments)...);
    } else {
      if (!sync_) return Output(impl().forward(std::forward<Arguments>(arguments)...));
      double weight = sync_->begin_forward();
      Output output = impl().forward(std::forward<Arguments>(arguments)...);
      end_forward(output, weight);
      return output;
    }
  }

  /// See NoSync.
  NoSync no_sync() const { return NoSync(sync_); }

  /// The module that was given; if that was a holder, the holder.
  M& module() const { return Traits::wrapped(module_); }
  torch::nn::Module& base() const { return *module_; }
  /// Null for one worker.
  const std::shared_ptr<detail::ModelSync>& sync() const { return sync_; }

  std::vector<torch::Tensor> parameters(bool recurse = true) const {
    return sharded_ ? sharded_->shards().values() : base().parameters(recurse);
  }
  torch::OrderedDict<std::string, torch::Tensor> named_parameters(bool recurse = true) const {
    return sharded_ ? sharded_->shards() : base().named_parameters(recurse);
  }
  std::vector<torch::Tensor> buffers(bool recurse = true) const { return base().buffers(recurse); }
  auto named_buffers(bool recurse = true) const { return base().named_buffers(recurse); }
  void train(bool on = true) const { base().train(on); }
  void eval() const { base().eval(); }
  bool is_training() const { return base().is_training(); }
  void zero_grad(bool set_to_none = true) const {
    base().zero_grad(set_to_none);
    if (!sharded_) return;
    for (torch::Tensor& shard : sharded_->shards().values()) {
      torch::Tensor& gradient = shard.mutable_grad();
      if (set_to_none) gradient.reset();
      if (gradient.defined()) gradient.detach_().zero_();
    }
  }
  /// Scales the gradients so that all of them together have at most this norm, and returns the norm
  /// that they had, as torch::nn::utils::clip_grad_norm_(model->parameters(), max_norm) does for a
  /// model that is not sharded. For a sharded model this is collective.
  double clip_grad_norm_(double max_norm, double norm_type = 2) const {
    if (sharded_) return sharded_->clip_grad_norm(max_norm, norm_type);
    return torch::nn::utils::clip_grad_norm_(base().parameters(), max_norm, norm_type);
  }
  /// Must be called on all workers. Optimizers keep working: the parameters stay the same tensors.
  template <class... Arguments>
  void to(Arguments&&... arguments) const {
    if (sharded_) sharded_->rebuild();  // throws
    base().to(std::forward<Arguments>(arguments)...);
    if (sync_) sync_->rebuild();
  }

 private:
  Impl& impl() const { return *module_; }

  template <class Output>
  void end_forward(Output& output, double weight) const {
    std::vector<torch::Tensor> tensors;
    if constexpr (detail::has_output_tensors<Output>) {
      if (weight != 1) {
        detail::for_each_tensor(output, [&](torch::Tensor& tensor) {
          if (tensor.requires_grad()) tensor = detail::weigh_gradient(tensor, weight);
        });
      }
      if (sync_->needs_outputs()) {
        detail::for_each_tensor(output, [&](torch::Tensor& tensor) { tensors.push_back(tensor); });
      }
    } else if (weight != 1 || sync_->needs_outputs()) {
      detail::throw_unsupported_output(typeid(Output).name(), weight);
    }
    sync_->end_forward(tensors);
  }

  mutable Handle module_;
  std::shared_ptr<detail::ModelSync> sync_;
  std::shared_ptr<detail::ShardedSync> sharded_;  // the same, if it is one
};

/// Makes a module data-parallel. Give it a holder, or a shared_ptr to the module.
template <class M>
requires std::is_base_of_v<torch::detail::ModuleHolderIndicator, M> DataParallel<M> prepare_model(
    M module, SyncOptions options) {
  return DataParallel<M>(std::move(module), std::move(options));
}
template <class M>
requires std::is_base_of_v<torch::nn::Module, M> DataParallel<M> prepare_model(
    std::shared_ptr<M> module, SyncOptions options) {
  return DataParallel<M>(std::move(module), std::move(options));
}

}  // namespace manta::train
