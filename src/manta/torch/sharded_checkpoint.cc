#include <charconv>
#include <numeric>
#include <optional>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/torch/shard_registry_internal.h"
#include "manta/torch/sharded_checkpoint_internal.h"

namespace manta::detail {
namespace {

using train::detail::find_shard;
using train::detail::plan_copies;
using train::detail::ShardInfo;
using train::detail::ShardRange;
using Entries = std::map<std::string, StoredShards::Entry>;

constexpr int kMaxShards = 10'000;  // as many as a run has workers

int64_t numbers_of(const std::vector<int64_t>& sizes) {
  return std::accumulate(sizes.begin(), sizes.end(), int64_t{1}, std::multiplies<>());
}

void fill(const std::string& name, const StoredShards::Entry& entry, const ShardRange& range,
          torch::Tensor to) {
  int64_t missing = range.size();
  for (const auto& copy : plan_copies(entry.ranges, range)) {
    to.narrow(0, copy.to, copy.count)
        .copy_(entry.parts[copy.part].narrow(0, copy.from, copy.count));
    missing -= copy.count;
  }
  if (missing == 0) return;
  throw Error(ErrorKind::kInvalidArgument,
              manta::str("TorchCheckpoint: '", name, "' is split over workers, and ", missing,
                         " of its numbers are not here; report() the checkpoint, and load what was "
                         "committed"));
}

torch::Tensor range_of(const std::string& name, const StoredShards::Entry& entry,
                       const ShardRange& range) {
  auto type = entry.parts.empty() ? torch::kFloat : entry.parts[0].scalar_type();
  torch::Tensor to = torch::empty({range.size()}, type);
  fill(name, entry, range, to);
  return to;
}

torch::Tensor whole_of(const std::string& name, const StoredShards::Entry& entry) {
  return range_of(name, entry, {0, numbers_of(entry.sizes)}).view(entry.sizes);
}

void add_share(StoredShards& shards, const std::string& name, const ShardInfo& info,
               torch::Tensor share) {
  shards.rank = info.rank;
  shards.world = info.world;
  shards.tensors[name] = {info.sizes, {info.range}, {std::move(share)}};
}

// Which parameter "3.exp_avg" belongs to.
std::optional<size_t> parameter_index(const std::string& name) {
  size_t index = 0;
  auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), index);
  if (error != std::errc() || end == name.data() + name.size() || *end != '.') return std::nullopt;
  return index;
}

std::vector<torch::Tensor> parameters_in(const torch::optim::Optimizer& optimizer) {
  std::vector<torch::Tensor> parameters;
  for (const auto& group : optimizer.param_groups()) {
    parameters.insert(parameters.end(), group.params().begin(), group.params().end());
  }
  return parameters;
}

}  // namespace

Json StoredShards::description() const {
  Json shapes = Json::object();
  for (const auto& [name, entry] : tensors) shapes[name] = entry.sizes;
  return {{"world", world}, {"shapes", shapes}};
}

std::vector<NamedTensor> StoredShards::parts() const {
  std::vector<NamedTensor> parts;
  for (const auto& [name, entry] : tensors) {
    if (entry.parts.at(0).numel() > 0) parts.push_back({name, entry.parts[0]});
  }
  return parts;
}

std::string shard_file(const std::string& base, int rank, int world) {
  std::string stem = base.substr(0, base.rfind(".safetensors"));
  return manta::str(stem, ".shard-", rank, "-of-", world, ".safetensors");
}

std::shared_ptr<StoredShards> take_shards(std::vector<NamedTensor>& tensors, size_t& parameters) {
  auto shards = std::make_shared<StoredShards>();
  std::vector<NamedTensor> rest;
  size_t kept = 0;
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (auto info = find_shard(tensors[i].tensor)) {
      add_share(*shards, tensors[i].name, *info, info->shard.detach());
      continue;
    }
    if (i < parameters) ++kept;
    rest.push_back(tensors[i]);
  }
  if (shards->tensors.empty()) return nullptr;
  tensors = std::move(rest);
  parameters = kept;
  return shards;
}

std::shared_ptr<StoredShards> take_shards(const torch::optim::Optimizer& optimizer,
                                          std::vector<NamedTensor>& tensors) {
  if (!has_shards(optimizer)) return nullptr;
  if (dynamic_cast<const torch::optim::LBFGS*>(&optimizer)) {
    throw Error(ErrorKind::kInvalidArgument,
                "TorchCheckpoint: an LBFGS on the shares of a sharded model computes with this "
                "worker's numbers only; use another optimizer, or a model that is not sharded");
  }
  auto shards = std::make_shared<StoredShards>();
  auto parameters = parameters_in(optimizer);
  std::vector<NamedTensor> rest;
  for (NamedTensor& item : tensors) {
    auto index = parameter_index(item.name);
    auto info = index && *index < parameters.size() ? find_shard(parameters[*index]) : std::nullopt;
    if (info && item.tensor.numel() == info->range.size()) {
      add_share(*shards, item.name, *info, item.tensor);
    } else {
      rest.push_back(std::move(item));
    }
  }
  tensors = std::move(rest);
  return shards->tensors.empty() ? nullptr : shards;
}

std::shared_ptr<StoredShards> read_shards(const Checkpoint& checkpoint, const std::string& base,
                                          const Json& description) {
  JsonFields fields(description, std::string("state.json"), "sharded.");
  auto shards = std::make_shared<StoredShards>();
  shards->world = static_cast<int>(fields.integer("world", 1, kMaxShards));
  shards->is_read = true;
  auto corrupt = [&](const std::string& name, const std::string& why) {
    throw Error(ErrorKind::kCorrupt,
                manta::str("TorchCheckpoint: '", name, "' in ", base, ": ", why));
  };
  fields.object("shapes");  // throws unless it is one
  for (const auto& [name, shape] : fields.any("shapes").items()) {
    if (!shape.is_array()) corrupt(name, "state.json has the shape " + short_text(shape));
    StoredShards::Entry entry;
    int64_t numbers = 1;
    for (const Json& size : shape) {
      if (!size.is_number_unsigned() || size.get<uint64_t>() > (uint64_t{1} << 40) ||
          __builtin_mul_overflow(numbers, size.get<int64_t>(), &numbers)) {
        corrupt(name, "state.json has the shape " + short_text(shape));
      }
      entry.sizes.push_back(size);
    }
    shards->tensors[name] = std::move(entry);
  }
  for (int rank = 0; rank < shards->world; ++rank) {
    auto file = read_safetensors(checkpoint.file(shard_file(base, rank, shards->world)));
    for (auto& [name, entry] : shards->tensors) {
      ShardRange range = train::detail::shard_of(numbers_of(entry.sizes), rank, shards->world);
      if (range.size() == 0) continue;
      auto found = file.tensors.find(name);
      if (found == file.tensors.end()) corrupt(name, manta::str("rank ", rank, "'s file lacks it"));
      if (found->second.numel() != range.size()) {
        corrupt(name, manta::str("rank ", rank, "'s file has ", found->second.numel(),
                                 " numbers of it, not ", range.size()));
      }
      entry.ranges.push_back(range);
      entry.parts.push_back(found->second.view({-1}));
    }
  }
  return shards;
}

Entries entries_of(const std::vector<NamedTensor>& plain, const StoredShards* shards) {
  Entries entries;
  if (shards) entries = shards->tensors;
  for (const NamedTensor& item : plain) {
    entries[item.name] = {item.tensor.sizes().vec(),
                          {{0, item.tensor.numel()}},
                          {item.tensor.contiguous().view({-1})}};
  }
  return entries;
}

std::vector<NamedTensor> whole_tensors(const std::vector<NamedTensor>& plain,
                                       const StoredShards* shards) {
  std::vector<NamedTensor> tensors = plain;
  if (shards) {
    for (const auto& [name, entry] : shards->tensors)
      tensors.push_back({name, whole_of(name, entry)});
  }
  return tensors;
}

bool has_shards(const torch::optim::Optimizer& optimizer) {
  for (const torch::Tensor& parameter : parameters_in(optimizer)) {
    if (find_shard(parameter)) return true;
  }
  return false;
}

void load_entry(const std::string& name, const StoredShards::Entry& entry, torch::Tensor to) {
  torch::NoGradGuard no_grad;
  if (auto info = find_shard(to)) {
    fill(name, entry, info->range, info->shard.detach());
  } else if (entry.parts.size() == 1 && entry.parts[0].numel() == to.numel()) {
    to.copy_(entry.parts[0].view(entry.sizes));
  } else if (to.is_contiguous() && !to.requires_grad()) {
    fill(name, entry, {0, to.numel()}, to.view({-1}));
  } else {
    to.copy_(whole_of(name, entry));
  }
}

std::map<std::string, torch::Tensor> optimizer_tensors(const torch::optim::Optimizer& optimizer,
                                                       const std::vector<NamedTensor>& plain,
                                                       const StoredShards* shards) {
  std::map<std::string, torch::Tensor> tensors;
  auto parameters = parameters_in(optimizer);
  for (const auto& [name, entry] : entries_of(plain, shards)) {
    auto index = parameter_index(name);
    auto info = index && *index < parameters.size() ? find_shard(parameters[*index]) : std::nullopt;
    bool fits = info && info->sizes == entry.sizes;
    tensors[name] = fits ? range_of(name, entry, info->range) : whole_of(name, entry);
  }
  return tensors;
}

}  // namespace manta::detail
