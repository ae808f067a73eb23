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

// Half precision has too few digits for statistics, and too small a range for squares.
torch::ScalarType type_of_statistics(const torch::Tensor& inputs) {
  return inputs.scalar_type() == torch::kDouble ? torch::kDouble : torch::kFloat;
}

// [features] in a shape that fits the inputs.
torch::Tensor by_feature(const torch::Tensor& values, const torch::Tensor& inputs) {
  std::vector<int64_t> shape(static_cast<size_t>(inputs.dim()), 1);
  shape[1] = values.numel();
  return values.to(type_of_statistics(inputs)).view(shape);
}

struct NormalizeTogether : torch::autograd::Function<NormalizeTogether> {
  // `mean`, `inverse` and `rows` are of the joined batch. Without a weight there is no bias.
  static torch::Tensor forward(torch::autograd::AutogradContext* context,
                               const torch::Tensor& inputs, const torch::Tensor& weight,
                               const torch::Tensor& bias, const torch::Tensor& mean,
                               const torch::Tensor& inverse, double rows,
                               const GroupOfBatch& group) {
    context->save_for_backward({inputs, weight, mean, inverse});
    context->saved_data["rows"] = rows;
    context->saved_data["group"] = c10::IValue::make_capsule(group);
    torch::Tensor outputs = normalized(inputs, mean, inverse);
    if (weight.defined()) {
      outputs = outputs * by_feature(weight, inputs) + by_feature(bias, inputs);
    }
    return outputs.to(inputs.scalar_type());
  }

  static torch::autograd::variable_list backward(torch::autograd::AutogradContext* context,
                                                 torch::autograd::variable_list gradients) {
    auto saved = context->get_saved_variables();
    const torch::Tensor &inputs = saved[0], &weight = saved[1], &mean = saved[2],
                        &inverse = saved[3];
    auto dims = all_but_features(inputs);
    double rows = context->saved_data["rows"].toDouble();
    auto group = c10::static_intrusive_pointer_cast<c10d::ProcessGroup>(
        context->saved_data["group"].toCapsule());
    torch::Tensor normal = normalized(inputs, mean, inverse);
    torch::Tensor gradient = gradients[0].to(normal.scalar_type());
    torch::Tensor of_bias = gradient.sum(dims, false, torch::kDouble);
    torch::Tensor of_weight = (gradient * normal).sum(dims, false, torch::kDouble);
    torch::Tensor sums = sum_over_workers(group, torch::stack({of_bias, of_weight}));
    torch::Tensor scale = by_feature(inverse, inputs);
    if (weight.defined()) scale = scale * by_feature(weight, inputs);
    torch::Tensor result = (gradient - by_feature(sums[0] / rows, inputs) -
                            normal * by_feature(sums[1] / rows, inputs)) *
                           scale;
    if (!weight.defined()) return {result.to(inputs.scalar_type()), {}, {}, {}, {}, {}, {}};
    return {result.to(inputs.scalar_type()),
            of_weight.to(weight.scalar_type()),
            of_bias.to(weight.scalar_type()),
            {},
            {},
            {},
            {}};
  }

 private:
  static torch::Tensor normalized(const torch::Tensor& inputs, const torch::Tensor& mean,
                                  const torch::Tensor& inverse) {
    return (inputs - by_feature(mean, inputs)) * by_feature(inverse, inputs);
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
  torch::Tensor mean, variance;
  double rows = 0;
  if (use_batch) {
    // Sums of doubles: the difference of two of them keeps a float's digits.
    auto dims = all_but_features(inputs);
    torch::NoGradGuard no_grad;
    torch::Tensor values = inputs.detach().to(type_of_statistics(inputs));
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
    return NormalizeTogether::apply(inputs, weight, bias, mean, inverse, rows, group);
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
