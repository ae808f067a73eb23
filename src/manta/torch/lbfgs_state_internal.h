#pragma once

#include <map>
#include <string>

#include "manta/torch/optimizer_state_internal.h"

namespace manta::detail {

/// An LBFGS as data. It has one state for all parameters, in flat tensors: "0.d", "0.old_dirs.7".
OptimizerState read_lbfgs(const torch::optim::LBFGS& optimizer);

/// The reverse; see write_optimizer, whose messages it completes. The type was checked.
void write_lbfgs(torch::optim::LBFGS& optimizer, const Json& description,
                 const std::map<std::string, torch::Tensor>& tensors);

}  // namespace manta::detail
