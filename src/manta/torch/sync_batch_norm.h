#pragma once

#include <torch/nn.h>

#include <optional>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

namespace manta::train {

struct SyncBatchNormOptions {
  double eps = 1e-5;  ///< Added to the variance.
  /// The share of a batch in the running statistics; none: their average over all batches.
  std::optional<double> momentum = 0.1;
  bool affine = true;               ///< Has a weight and a bias.
  bool track_running_stats = true;  ///< False: evaluates with the batch's own statistics, too.
  /// The workers whose rows form one batch; null: all workers of the run.
  c10::intrusive_ptr<c10d::ProcessGroup> group = {};
};

/// Batch normalisation over the rows of all workers, for inputs of shape [rows, features, ...]:
/// forward, backward and running statistics are those of torch::nn::BatchNorm on the joined batch,
/// however many rows each worker has. Use it where a worker has too few rows for good statistics.
/// Parameters and buffers have BatchNorm's names, so either loads the other's checkpoint.
///
/// In training each forward and each backward exchanges a few numbers per feature: all workers must
/// call it equally often. In evaluation, and with one worker, it is BatchNorm.
class SyncBatchNormImpl : public torch::nn::Module {
 public:
  explicit SyncBatchNormImpl(int64_t features, SyncBatchNormOptions options = {});
  torch::Tensor forward(const torch::Tensor& inputs);
  void reset_running_stats();
  void pretty_print(std::ostream& stream) const override;

  torch::Tensor weight, bias;               ///< Undefined unless `affine`.
  torch::Tensor running_mean, running_var;  ///< Undefined unless `track_running_stats`.
  torch::Tensor num_batches_tracked;

 private:
  void update_statistics(const torch::Tensor& mean, const torch::Tensor& variance, double rows);

  int64_t features_;
  SyncBatchNormOptions options_;
};
TORCH_MODULE(SyncBatchNorm);

}  // namespace manta::train
