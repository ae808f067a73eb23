#pragma once

#include <torch/nn.h>

#include <memory>
#include <string>
#include <vector>

#include "manta/torch/gradient_sync.h"

namespace manta::train::detail {

/// Splits one model over the workers: each holds its share of every parameter and of its gradient.
/// Optimizers get these shares, so their state is split, too. Activations and buffers are not
/// split: see GradientSync.
///
/// A module's own parameters keep their shapes but have no memory. An operation that takes one, in
/// forward or backward, makes the workers gather it first. The memory is released when another
/// parameter is gathered, or when forward or backward ends. So besides its shares a worker holds
/// the parameters of one operation and the gradient of one parameter. In backward each gradient is
/// averaged and split as soon as it is complete.
///
/// A parameter that forward converts to a narrower type, as under Autocast, is kept in that type by
/// autograd until backward. Like a parameter, that copy has memory only while an operation uses it.
///
/// Parameters may be frozen and unfrozen between a backward and the next forward, through
/// requires_grad_() of a share or of the module's own tensor, on all workers alike.
///
/// Gathering is collective: all workers must run the same operations on parameters, in the same
/// order. A model that branches on a worker's rows needs DataParallel without `sharded`. Values
/// written to a module's own parameters are lost; write to `shards()`.
class ShardedSync final : public ModelSync {
 public:
  /// Collective. Splits rank 0's values. Throws Error(kInvalidArgument) naming the rank if the
  /// workers' models differ. While it works, a worker holds its whole model.
  ShardedSync(torch::nn::Module& module, SyncOptions options);
  ~ShardedSync() override;
  ShardedSync(const ShardedSync&) = delete;
  ShardedSync& operator=(const ShardedSync&) = delete;

  double begin_forward() override;
  void end_forward(const std::vector<torch::Tensor>& outputs) override;
  bool needs_outputs() const override { return false; }
  [[noreturn]] void rebuild() override;

  /// This worker's share of each parameter, of one dimension, by the parameter's name.
  const torch::OrderedDict<std::string, torch::Tensor>& shards() const { return shards_; }
  /// torch::nn::utils::clip_grad_norm_ over the gradients of all workers. Collective.
  double clip_grad_norm(double max_norm, double norm_type);

  struct Param;   ///< One parameter.
  struct Narrow;  ///< One in a narrower type.
  struct State;
  class Hook;

 private:
  void split(const std::string& name, torch::Tensor parameter);

  std::unique_ptr<State> state_;
  torch::OrderedDict<std::string, torch::Tensor> shards_;
};

/// If `parameters` has shares of a sharded model: whether `mine` is true on one of the workers,
/// which must all call this. Otherwise `mine`.
bool any_of_shards(const std::vector<torch::Tensor>& parameters, bool mine);

}  // namespace manta::train::detail
