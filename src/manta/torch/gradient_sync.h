#pragma once

#include <torch/nn.h>

#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace manta::train {

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
  /// A model on the CPU whose trainable parameters and buffers are at most this large exchanges
  /// everything at once when backward ends. A larger one uses buckets, while backward runs.
  size_t flat_limit_bytes = size_t{1} << 20;
  size_t first_bucket_bytes = size_t{1} << 20;  ///< Small, so that the first exchange starts early.
  size_t bucket_bytes = size_t{25} << 20;
  /// Sends rank 0's buffers, e.g. the running statistics of BatchNorm, to all workers when backward
  /// ends.
  bool broadcast_buffers = true;
  /// For larger models only. If false, a backward that does not reach every parameter makes the
  /// next forward throw. If true, each forward costs a walk over the graph.
  bool find_unused_parameters = true;
};

namespace detail {

/// Averages the gradients of one model over the workers, as part of each backward.
class GradientSync {
 public:
  /// Collective: every worker makes one at the same time. Gives all of them rank 0's parameters and
  /// buffers. Throws Error(kInvalidArgument) naming the rank if their models differ.
  GradientSync(torch::nn::Module& module, SyncOptions options);
  ~GradientSync();
  GradientSync(const GradientSync&) = delete;
  GradientSync& operator=(const GradientSync&) = delete;

  /// Call it before the module's forward. Returns the weight of what it computes; 1 if there will
  /// be no backward.
  double begin_forward();
  /// Call it after the module's forward. Reads `outputs` only if `needs_outputs()`.
  void end_forward(const std::vector<torch::Tensor>& outputs);
  bool needs_outputs() const;

  /// Between the two, gradients stay local.
  void pause() { ++paused_; }
  void resume() { --paused_; }
  /// Call it after the parameters changed their type or device.
  void rebuild();
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
  int paused_ = 0;
  int task_ = -1;  ///< The backward that finish_backward() was queued for.
};

/// The identity, except that its gradient is multiplied by `weight`.
torch::Tensor weigh_gradient(const torch::Tensor& tensor, double weight);

[[noreturn]] void throw_unsupported_output(const char* type, double weight);

}  // namespace detail
}  // namespace manta::train
