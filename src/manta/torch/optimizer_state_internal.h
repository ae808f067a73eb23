#pragma once

#include <torch/optim.h>

#include <map>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/torch/safetensors.h"

namespace manta::detail {

/// An optimizer as data. Parameters are numbered over all groups: tensor "3.exp_avg" belongs to the
/// fourth. `description`: {"type": "Adam", "groups": [{"params": 4, "options": {...}}], "state":
/// {"3": {"step": 200, "tensors": ["exp_avg", ...]}}}.
struct OptimizerState {
  Json description;
  std::vector<NamedTensor> tensors;  ///< The optimizer's own, not copies.
};

/// Throws Error(kInvalidArgument) unless it is an Adam, AdamW, SGD, RMSprop, Adagrad or LBFGS.
OptimizerState read_optimizer(const torch::optim::Optimizer& optimizer);

/// Makes the optimizer continue where the stored one was: takes over its state and its options,
/// e.g. the learning rate. Throws Error(kInvalidArgument) if type, groups or shapes differ, before
/// it changes anything; Error(kCorrupt) if the data is incomplete. `what` begins the messages.
void write_optimizer(torch::optim::Optimizer& optimizer, const Json& description,
                     const std::map<std::string, torch::Tensor>& tensors, const std::string& what);

}  // namespace manta::detail
