#pragma once

#include <torch/types.h>

#include <optional>
#include <vector>

#include "manta/torch/shard_plan_internal.h"
#include "manta/torch/sharded_sync.h"

namespace manta::train::detail {

/// What a checkpoint needs to know about a parameter that is split.
struct ShardInfo {
  torch::Tensor shard;
  ShardRange range;
  std::vector<int64_t> sizes;  ///< The sizes of the whole parameter.
  int rank = 0;
  int world = 1;
};

/// The info of a sharded model's parameter, or of the worker's share of one; nothing for other
/// tensors.
std::optional<ShardInfo> find_shard(const torch::Tensor& tensor);

}  // namespace manta::train::detail
