#pragma once

#include <torch/nn.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace manta::train {

/// What `prepare_model` may be told about a model.
struct PrepareModelOptions {
  /// Lets a backward leave out parameters, different ones on each worker if need be. Costs a walk
  /// over the graph for each forward of a model above 1 MiB. Smaller models may always leave some
  /// out. If false, a backward of a larger model that does not reach every parameter makes the next
  /// forward throw.
  bool find_unused_parameters = true;
  /// Sends rank 0's buffers, e.g. the running statistics of BatchNorm, to all workers when backward
  /// ends. If false, each worker keeps its own; rank 0's are those of checkpoints.
  bool broadcast_buffers = true;
  /// Gradients of a model above 1 MiB are exchanged in parts of about this size, while backward
  /// runs. A larger size means fewer exchanges, a smaller one an earlier start.
  size_t bucket_bytes = size_t{25} << 20;
  /// Splits parameters, gradients and optimizer state over the workers, for models that do not fit
  /// into one worker: see ShardedSync. `find_unused_parameters` and `bucket_bytes` then have no
  /// effect.
  bool sharded = false;
};

/// How the copies of a model on several workers are kept equal.
struct SyncOptions {
  /// What the workers communicate through. May be null if `world_size` is 1.
  c10::intrusive_ptr<c10d::ProcessGroup> group = {};
  int rank = 0;
  int world_size = 1;
  /// How much this worker's next forward counts: its rows x world_size / the rows of all workers.
  /// Called for each forward that a backward may follow. Default: 1, for equal slices.
  std::function<double()> weight = {};
  /// Called with true before a backward's first exchange, and with false when all have begun.
  std::function<void(bool)> exchanging = {};
  /// The step of the loop that a backward belongs to, the same on all workers; -1 if unknown there.
  /// If the workers' steps differ, backward throws Error(kInvalidArgument) naming them. Default:
  /// not compared.
  std::function<int64_t()> step = {};
  /// A model on the CPU whose trainable parameters and buffers are at most this large exchanges
  /// everything at once when backward ends. A larger one uses buckets, while backward runs.
  size_t flat_limit_bytes = size_t{1} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;  ///< Small, so that the first exchange starts early.
  PrepareModelOptions model = {};
};

namespace detail {

/// Keeps one model the same on all workers, as part of each forward and backward.
class ModelSync {
 public:
  virtual ~ModelSync() = default;
  /// Call it before the module's forward. Returns the weight of what it computes; 1 if there will
  /// be no backward.
  virtual double begin_forward() = 0;
  /// Call it after the module's forward. Reads `outputs` only if `needs_outputs()`.
  virtual void end_forward(const std::vector<torch::Tensor>& outputs) = 0;
  virtual bool needs_outputs() const = 0;
  /// Call it after the parameters changed their type or device.
  virtual void rebuild() = 0;
  /// Between pause and resume, gradients stay local.
  void pause() { ++paused_; }
  void resume() { --paused_; }

 protected:
  int paused_ = 0;
};

/// Averages the gradients of one model, which every worker has, over the workers.
class GradientSync final : public ModelSync {
 public:
  /// Collective: every worker makes one at the same time. Gives all of them rank 0's parameters and
  /// buffers. Throws Error(kInvalidArgument) naming the rank if their models differ.
  GradientSync(torch::nn::Module& module, SyncOptions options);
  ~GradientSync() override;
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  double begin_forward() override;
  void end_forward(const std::vector<torch::Tensor>& outputs) override;
  bool needs_outputs() const override;
  void rebuild() override;
  /// True if all gradients are exchanged at once when backward ends.
  bool is_flat() const;

 private:
  struct Path;
  class Hook;

  void install_hooks();
  void remove_hooks();
  void on_gradient();
  void finish_backward();

  SyncOptions options_;
  std::vector<std::string> names_;
  std::vector<torch::Tensor> parameters_;
  std::vector<torch::Tensor> buffers_;
  std::unique_ptr<Path> path_;
  int task_ = -1;  ///< The backward that finish_backward() was queued for.
};

/// Whether the tensor belongs to a model that is kept the same on all workers.
bool has_gradient_hook(const torch::Tensor& parameter);
/// Call it for a tensor that no longer belongs to such a model, for was_prepared().
void leave_prepared(const torch::Tensor& parameter);
/// Whether the tensor belongs, or belonged, to such a model.
bool was_prepared(const torch::Tensor& parameter);

/// The identity, except that its gradient is multiplied by `weight`.
torch::Tensor weigh_gradient(const torch::Tensor& tensor, double weight);

[[noreturn]] void throw_unsupported_output(const char* type, double weight);

}  // namespace detail
}  // namespace manta::train
