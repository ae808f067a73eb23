#pragma once

#include <torch/nn.h>

#include <string>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <vector>

namespace manta::train::detail {

/// The copies of one model, as one of the workers sees them.
struct Replicas {
  c10d::ProcessGroup& group;
  int rank;
  int world_size;
};

/// One line per parameter and buffer: name, type and shape.
std::vector<std::string> describe_model(const torch::nn::Module& module);

/// Collective. Throws the same Error(kInvalidArgument) on every worker, naming the first rank whose
/// description differs from rank 0's, and where.
void check_equal_models(const Replicas& replicas, const std::vector<std::string>& description);

/// Collective. Gives every worker rank 0's values, bit by bit, whatever the types. Autograd does
/// not record it.
void broadcast_tensors(const Replicas& replicas, const std::vector<torch::Tensor>& tensors);

/// Throws Error(kInvalidArgument) naming two workers whose steps differ; steps below 0 are unknown.
void check_equal_steps(const std::vector<int64_t>& steps);
/// Collective: tells the others this worker's step, and checks theirs.
void compare_steps(const Replicas& replicas, int64_t step);

}  // namespace manta::train::detail
