#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/torch/late_exchange_internal.h"
#include "manta/torch/process_group_internal.h"

namespace manta::train::detail {
namespace {

constexpr int64_t kLateChunkBytes = int64_t{64} << 20;

void sum_over_workers(c10d::ProcessGroup& group, const torch::Tensor& tensor) {
  std::vector<torch::Tensor> tensors = {tensor};
  backend_for(group, tensor.device().type())->allreduce(tensors)->wait();
}

// Complex numbers as pairs of real ones.
torch::Tensor real_gradient(const torch::Tensor& parameter) {
  torch::Tensor gradient = parameter.grad();
  return gradient.is_complex() ? torch::view_as_real(gradient) : gradient;
}

}  // namespace

void average_gradients(const Replicas& replicas, const std::vector<torch::Tensor>& parameters) {
  torch::NoGradGuard no_grad;
  torch::Tensor used = torch::zeros({static_cast<int64_t>(parameters.size())}, torch::kInt32);
  for (size_t i = 0; i < parameters.size(); ++i) {
    const torch::Tensor& gradient = parameters[i].grad();
    if (!gradient.defined()) continue;
    if (gradient.layout() != torch::kStrided) {
      throw Error(ErrorKind::kInvalidArgument,
                  manta::str("backward: a parameter of shape ", parameters[i].sizes(),
                             " has a sparse gradient, which cannot be averaged over the workers; ",
                             "make its module with sparse(false)"));
    }
    used[static_cast<int64_t>(i)] = 1;
  }
  // On the device of the model: if that is a GPU, the group may support no other.
  torch::Tensor anywhere = used.to(parameters[0].device());
  sum_over_workers(replicas.group, anywhere);
  used = anywhere.to(torch::kCPU);

  std::vector<torch::Tensor> gradients;
  for (size_t i = 0; i < parameters.size(); ++i) {
    if (used[static_cast<int64_t>(i)].item<int32_t>() == 0) continue;
    torch::Tensor parameter = parameters[i];
    if (!parameter.grad().defined()) parameter.mutable_grad() = torch::zeros_like(parameter);
    gradients.push_back(real_gradient(parameter));
  }
  for (size_t next = 0; next < gradients.size();) {
    std::vector<torch::Tensor> flat;
    size_t first = next;
    int64_t bytes = 0;
    do {
      bytes += static_cast<int64_t>(gradients[next].nbytes());
      flat.push_back(gradients[next++].reshape({-1}));
    } while (next < gradients.size() &&
             gradients[next].scalar_type() == gradients[first].scalar_type() &&
             gradients[next].device() == gradients[first].device() &&
             bytes + static_cast<int64_t>(gradients[next].nbytes()) <= kLateChunkBytes);
    torch::Tensor sent = torch::cat(flat).div_(replicas.world_size);
    sum_over_workers(replicas.group, sent);
    int64_t offset = 0;
    for (; first < next; ++first) {
      torch::Tensor& gradient = gradients[first];
      gradient.copy_(sent.narrow(0, offset, gradient.numel()).view(gradient.sizes()));
      offset += gradient.numel();
    }
  }
}

}  // namespace manta::train::detail
