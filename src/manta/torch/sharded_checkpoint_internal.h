#pragma once

#include <torch/nn.h>
#include <torch/optim.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"
#include "manta/torch/safetensors.h"
#include "manta/torch/shard_plan_internal.h"

namespace manta::detail {

/// Tensors of a checkpoint of which each worker writes its share to a separate file:
/// `model.shard-0-of-4.safetensors`. Any number of workers can read them again.
struct StoredShards {
  struct Entry {
    std::vector<int64_t> sizes;  ///< The sizes of the whole tensor.
    std::vector<train::detail::ShardRange> ranges;
    std::vector<torch::Tensor> parts;  ///< One for each range, of one dimension.
  };
  std::map<std::string, Entry> tensors;
  int rank = 0;  ///< The worker that writes; until the shards are read, only its parts are there.
  int world = 1;
  bool is_read = false;  ///< True if read from a checkpoint: the parts of all workers are there.

  /// {"world": 4, "shapes": {"first.weight": [8, 4], ...}}, for state.json.
  Json description() const;
  std::vector<NamedTensor> parts() const;
};

/// `base` is a name that ends in .safetensors.
std::string shard_file(const std::string& base, int rank, int world);

/// Moves the split tensors out of a module's tensors, of which the first `parameters` are
/// parameters. Null if none is split.
std::shared_ptr<StoredShards> take_shards(std::vector<NamedTensor>& tensors, size_t& parameters);
/// The same for an optimizer's state. Throws Error(kInvalidArgument) for an LBFGS on shares.
std::shared_ptr<StoredShards> take_shards(const torch::optim::Optimizer& optimizer,
                                          std::vector<NamedTensor>& tensors);

/// Maps the files of all workers. Throws Error(kCorrupt) naming what does not fit `description`.
std::shared_ptr<StoredShards> read_shards(const Checkpoint& checkpoint, const std::string& base,
                                          const Json& description);

/// Each tensor as a whole, in memory.
std::vector<NamedTensor> whole_tensors(const std::vector<NamedTensor>& plain,
                                       const StoredShards* shards);

bool has_shards(const torch::optim::Optimizer& optimizer);

/// Tensors by name, split or not; a tensor that is not split has one part.
std::map<std::string, StoredShards::Entry> entries_of(const std::vector<NamedTensor>& plain,
                                                      const StoredShards* shards);
/// Copies into a module's tensor, split or not, the numbers that it needs from a stored tensor of
/// the same shape.
void load_entry(const std::string& name, const StoredShards::Entry& entry, torch::Tensor to);
/// The state of an optimizer's parameters, split or not, made from such tensors.
std::map<std::string, torch::Tensor> optimizer_tensors(const torch::optim::Optimizer& optimizer,
                                                       const std::vector<NamedTensor>& plain,
                                                       const StoredShards* shards);

}  // namespace manta::detail
