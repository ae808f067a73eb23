#include "manta/torch/sync_batch_norm.h"

#include <torch/csrc/autograd/custom_function.h>

#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/prepare_model.h"
#include "manta/torch/process_group_internal.h"

namespace manta::train {
namespace {

using GroupOfBatch = c10::intrusive_ptr<c10d::ProcessGroup>;

torch::Tensor sum_over_workers(const GroupOfBatch& group, torch::Tensor numbers) {
  std::vector<torch::Tensor> sent = {std::move(numbers)};
  backend_for(*group, sent[0].device().type())->allreduce(sent)->wait();
  return sent[0];
}

std::vector<int64_t> all_but_features(const torch::Tensor& inputs) {
  std::vector<int64_t> dims = {0};
  for (int64_t i = 2; i < inputs.dim(); ++i) dims.push_back(i);
  return dims;
}

// [features] in a shape that fits the inputs.
torch::Tensor by_feature(const torch::Tensor& values, const torch::Tensor& inputs) {
  std::vector<int64_t> shape(static_cast<size_t>(inputs.dim()), 1);
  shape[1] = values.numel();
  return values.to(inputs.scalar_type()).view(shape);
}

struct NormalizeTogether : torch::autograd::Function<NormalizeTogether> {
  // Without weight and bias. `mean`, `inverse` and `rows` are of the joined batch.
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& inputs, const torch::Tensor& mean,
                               const torch::Tensor& inverse, double rows,
                               const GroupOfBatch& group) {
    torch::Tensor normal = (inputs - by_feature(mean, inputs)) * by_feature(inverse, inputs);
    context->save_for_backward({normal, inverse});
    context->saved_data["rows"] = rows;
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    return normal;
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    const torch::Tensor &normal = saved[0], &inverse = saved[1], &gradient = gradients[0];
    auto dims = all_but_features(normal);
    double rows = context->saved_data["rows"].toDouble();
    auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(
        context->saved_data["group"].toCapsule());
    torch::Tensor sums = sum_over_workers(
        group, torch::stack({gradient.sum(dims, false, torch::kDouble),
                             (gradient * normal).sum(dims, false, torch::kDouble)}));
    torch::Tensor mean = by_feature(sums[0] / rows, normal);
    torch::Tensor slope = by_feature(sums[1] / rows, normal);
    torch::Tensor result = (gradient - mean - normal * slope) * by_feature(inverse, normal);
    return {result, {}, {}, {}, {}};
  }
};

}  // namespace

SyncBatchNormImpl::SyncBatchNormImpl(int64_t features, SyncBatchNormOptions options)
    : features_(features), options_(std::move(options)) {
  if (features <= 0) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("SyncBatchNorm: features must be positive (was ", features, ")"));
  }
  if (options_.affine) {
    weight = register_parameter("weight", torch::ones({features}));
    bias = register_parameter("bias", torch::zeros({features}));
  }
  if (options_.track_running_stats) {
    running_mean = register_buffer("running_mean", torch::zeros({features}));
    running_var = register_buffer("running_var", torch::ones({features}));
    num_batches_tracked = register_buffer("num_batches_tracked", torch::zeros({}, torch::kInt64));
  }
}

void SyncBatchNormImpl::reset_running_stats() {
  if (!options_.track_running_stats) return;
  torch::NoGradGuard no_grad;
  running_mean.zero_();
  running_var.fill_(1);
  num_batches_tracked.zero_();
}

void SyncBatchNormImpl::pretty_print(std::ostream& stream) const {
  stream << "manta::train::SyncBatchNorm(" << features_ << ")";
}

torch::Tensor SyncBatchNormImpl::forward(const torch::Tensor& inputs) {
  if (inputs.dim() < 2 || inputs.size(1) != features_) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("SyncBatchNorm: the input is of shape ", inputs.sizes(),
                           ", expected [rows, ", features_, ", ...]"));
  }
  bool use_batch = is_training() || !options_.track_running_stats;
  GroupOfBatch group;
  if (use_batch) group = options_.group ? options_.group : get_process_group();
  torch::Tensor mean, variance, normal;
  double rows = 0;
  if (use_batch) {
    // Sums of doubles: the difference of two of them keeps a float's digits.
    auto dims = all_but_features(inputs);
    torch::NoGradGuard no_grad;
    torch::Tensor values = inputs.detach();
    torch::Tensor sum = values.sum(dims, false, torch::kDouble);
    double count = static_cast<double>(inputs.numel()) / static_cast<double>(features_);
    torch::Tensor center = count > 0 ? sum / count : torch::zeros_like(sum);
    torch::Tensor spread =
        (values - by_feature(center, values)).square().sum(dims, false, torch::kDouble);
    torch::Tensor sums =
        torch::cat({sum, spread + count * center.square(), torch::full({1}, count, sum.options())});
    if (group) sums = sum_over_workers(group, sums);
    rows = sums[-1].item<double>();
    if (rows < 2) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str("SyncBatchNorm: all workers together have ", rows,
                             " values per feature; training needs at least 2"));
    }
    mean = sums.narrow(0, 0, features_) / rows;
    variance = (sums.narrow(0, features_, features_) / rows - mean.square()).clamp_min(0);
    if (is_training()) update_statistics(mean, variance, rows);
  } else {
    mean = running_mean;
    variance = running_var;
  }
  if (group) {
    torch::Tensor inverse = (variance + options_.eps).rsqrt();
    normal = NormalizeTogether::apply(inputs, mean, inverse, rows, group);
    if (!options_.affine) return normal;
    return normal * by_feature(weight, inputs) + by_feature(bias, inputs);
  }
  if (!use_batch) {
    return torch::batch_norm(inputs, weight, bias, running_mean, running_var, false, 0,
                             options_.eps, false);
  }
  return torch::batch_norm(inputs, weight, bias, {}, {}, true, 0, options_.eps, false);
}

void SyncBatchNormImpl::update_statistics(const torch::Tensor& mean, const torch::Tensor& variance,
                                          double rows) {
  if (!options_.track_running_stats) return;
  num_batches_tracked.add_(1);
  double share = options_.momentum ? *options_.momentum : 1 / num_batches_tracked.item<double>();
  running_mean.mul_(1 - share).add_(mean.to(running_mean.scalar_type()), share);
  running_var.mul_(1 - share).add_((variance * (rows / (rows - 1))).to(running_var.scalar_type()),
                                   share);
}

}  // namespace manta::train
