#include "manta/torch/torch_checkpoint.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/torch/optimizer_state_internal.h"
#include "manta/torch/scheduler_state_internal.h"
#include "manta/torch/sharded_checkpoint_internal.h"
#include "manta/torch/torch_source_internal.h"
#include "manta/torch/user_state_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/session_internal.h"

namespace manta {
namespace {

constexpr const char* kStateFile = "state.json";
// Format 2 has slots. Format 1 had one model and at most one optimizer: {"format", "state",
// "optimizer"}.
constexpr int kFormat = 2;
constexpr size_t kMaxSlotName = 100;  // a file's name has room for 255
// The values of `set` are the user's.
constexpr JsonLimits kStateLimits{
    .bytes = size_t{1} << 30, .depth = 1000, .values = size_t{64} << 20};

std::string model_file(const std::string& slot) { return slot + ".safetensors"; }
std::string optimizer_file(const std::string& slot) {
  return slot == TorchCheckpoint::kOptimizerSlot ? model_file(slot)
                                                 : slot + ".optimizer.safetensors";
}

bool is_slot_name(const std::string& name) {
  return !name.empty() && name.size() <= kMaxSlotName &&
         std::all_of(name.begin(), name.end(), [](char c) {
           return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
                  c == '_' || c == '-';
         });
}

template <class Map>
std::string names_in(const Map& map) {
  std::string names;
  for (const auto& [name, value] : map) names += (names.empty() ? "" : ", ") + name;
  return names.empty() ? "none" : names;
}

// The place for an object that is added as `slot`. `kind` is "model", "optimizer" or "scheduler".
template <class Map>
auto& new_slot(Map& map, const char* kind, const std::string& slot) {
  if (!is_slot_name(slot)) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("TorchCheckpoint: the ", kind, " cannot be named '", slot,
                           "': use 1 to ", kMaxSlotName, " letters, digits, '_' and '-'"));
  }
  auto [place, added] = map.try_emplace(slot);
  if (!added) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("TorchCheckpoint: the ", kind, " '", slot,
                           "' is there already; give each its own name: add_", kind, "(\"name\", ",
                           kind, "), and load it by that name"));
  }
  return place->second;
}

template <class Map>
const auto& find_slot(const Map& map, const char* kind, const std::string& slot) {
  auto found = map.find(slot);
  if (found != map.end()) return found->second;
  throw Error(ErrorKind::kNotFound, manta::str("TorchCheckpoint: it has no ", kind, " '", slot,
                                               "'; there is: ", names_in(map)));
}

std::string cannot_load(const char* kind, const std::string& slot) {
  return manta::str("TorchCheckpoint: the ", kind, " '", slot, "' cannot be loaded: ");
}

// state.json, converted to the current format.
Json read_state(const std::string& path) {
  Json state = train::read_json(path, kStateLimits);
  auto has_object = [&](const char* key) { return state.contains(key) && state[key].is_object(); };
  auto corrupt = [&] {
    return Error(ErrorKind::kCorrupt, path + " is not the state of a TorchCheckpoint");
  };
  if (!state.is_object() || !state.contains("format") || !has_object("state")) throw corrupt();
  if (state["format"] == 1) {
    state["models"] = Json::array({TorchCheckpoint::kModelSlot});
    state["optimizers"] = Json::object();
    if (state.contains("optimizer")) {
      state["optimizers"][TorchCheckpoint::kOptimizerSlot] = state["optimizer"];
    }
    state["schedulers"] = Json::object();
  } else if (state["format"] != kFormat) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str(path, " has format ", state["format"], ", this program knows up to ",
                           kFormat, "; load it with a newer version"));
  }
  if (!has_object("optimizers") || !has_object("schedulers") || !state.contains("models") ||
      !state["models"].is_array()) {
    throw corrupt();
  }
  auto check_name = [&](const Json& name) {
    if (!name.is_string() || !is_slot_name(name.get<std::string>())) throw corrupt();
  };
  if (state.contains("numbers")) {
    if (!has_object("numbers")) throw corrupt();
    detail::put_odd_numbers(state["state"], state["numbers"], path);
  }
  if (!state.contains("scalers")) state["scalers"] = Json::object();  // earlier versions had none
  if (!has_object("scalers")) throw corrupt();
  if (!state.contains("sharded")) state["sharded"] = Json::object();
  if (!has_object("sharded")) throw corrupt();
  for (const char* kind : {"models", "optimizers"}) {
    Json& shards = state["sharded"][kind];
    if (shards.is_null()) shards = Json::object();
    if (!shards.is_object()) throw corrupt();
    for (const auto& [name, description] : shards.items()) check_name(name);
  }
  for (const Json& name : state["models"]) check_name(name);
  for (const char* kind : {"optimizers", "schedulers", "scalers"}) {
    for (const auto& [name, description] : state[kind].items()) check_name(name);
  }
  return state;
}

std::vector<NamedTensor> read_tensors(const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (auto& [name, tensor] : read_safetensors(path).tensors) tensors.push_back({name, tensor});
  return tensors;
}

std::vector<NamedTensor> parameters_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors = parameters_of(module);
  for (const auto& item : module.named_buffers()) tensors.push_back({item.key(), item.value()});
  return tensors;
}

std::map<std::string, torch::Tensor> by_name(const std::vector<NamedTensor>& tensors) {
  std::map<std::string, torch::Tensor> map;
  for (const NamedTensor& item : tensors) map.emplace(item.name, item.tensor);
  return map;
}

}  // namespace

TorchCheckpoint::TorchCheckpoint(const Checkpoint& checkpoint) {
  Json state = read_state(checkpoint.file(kStateFile));
  state_ = std::move(state["state"]);
  for (const Json& name : state["models"]) {
    std::string slot = name;
    models_[slot].tensors = read_tensors(checkpoint.file(model_file(slot)));
  }
  for (auto& [slot, description] : state["optimizers"].items()) {
    optimizers_[slot] = {std::move(description),
                         read_tensors(checkpoint.file(optimizer_file(slot)))};
  }
  for (auto& [slot, description] : state["sharded"]["models"].items()) {
    model_shards_[slot] = detail::read_shards(checkpoint, model_file(slot), description);
  }
  for (auto& [slot, description] : state["sharded"]["optimizers"].items()) {
    optimizer_shards_[slot] = detail::read_shards(checkpoint, optimizer_file(slot), description);
  }
  for (auto& [slot, description] : state["schedulers"].items()) {
    schedulers_[slot] = std::move(description);
  }
  for (auto& [slot, description] : state["scalers"].items()) {
    scalers_[slot] = std::move(description);
  }
}

void TorchCheckpoint::add_module(const std::string& slot, const torch::nn::Module& module) {
  if (slot == kOptimizerSlot) {
    throw Error(ErrorKind::kInvalidArgument,
                "TorchCheckpoint: the model cannot be named 'optimizer', because its file would "
                "be the optimizer's; take another name");
  }
  ModelTensors& model = new_slot(models_, "model", slot);
  model.tensors = tensors_of(module);
  model.parameters = parameters_of(module).size();
  if (auto shards = detail::take_shards(model.tensors, model.parameters)) {
    model_shards_[slot] = std::move(shards);
  }
}

TorchCheckpoint TorchCheckpoint::from_state_dict(const std::string& path,
                                                 const ReadStateDictOptions& options) {
  TorchCheckpoint checkpoint;
  checkpoint.models_[kModelSlot].tensors = read_state_dict(path, options);
  return checkpoint;
}

TorchCheckpoint& TorchCheckpoint::add_optimizer(const torch::optim::Optimizer& optimizer) {
  return add_optimizer(kOptimizerSlot, optimizer);
}

TorchCheckpoint& TorchCheckpoint::add_optimizer(const std::string& slot,
                                                const torch::optim::Optimizer& optimizer) {
  detail::OptimizerState state = detail::read_optimizer(optimizer);
  auto shards = detail::take_shards(optimizer, state.tensors);
  for (const auto& group : optimizer.param_groups()) {
    for (const torch::Tensor& parameter : group.params()) {
      if (optimizer.state().count(parameter.unsafeGetTensorImpl()) > 0)
        stepped_.push_back(parameter);
    }
  }
  new_slot(optimizers_, "optimizer", slot) = {std::move(state.description),
                                              std::move(state.tensors)};
  if (shards) optimizer_shards_[slot] = std::move(shards);
  return *this;
}

TorchCheckpoint& TorchCheckpoint::add_scheduler(const torch::optim::LRScheduler& scheduler) {
  return add_scheduler(kSchedulerSlot, scheduler);
}

TorchCheckpoint& TorchCheckpoint::add_scheduler(const std::string& slot,
                                                const torch::optim::LRScheduler& scheduler) {
  Json description = detail::read_scheduler(scheduler);
  new_slot(schedulers_, "scheduler", slot) = std::move(description);
  return *this;
}

TorchCheckpoint& TorchCheckpoint::add_scheduler(
    const torch::optim::ReduceLROnPlateauScheduler& scheduler) {
  return add_scheduler(kSchedulerSlot, scheduler);
}

TorchCheckpoint& TorchCheckpoint::add_scheduler(
    const std::string& slot, const torch::optim::ReduceLROnPlateauScheduler& scheduler) {
  new_slot(schedulers_, "scheduler", slot) = detail::read_scheduler(scheduler);
  return *this;
}

TorchCheckpoint& TorchCheckpoint::add_stateful(const std::string& slot,
                                               const StatefulScheduler& scheduler) {
  Json description = detail::read_scheduler(scheduler);
  new_slot(schedulers_, "scheduler", slot) = std::move(description);
  return *this;
}

TorchCheckpoint& TorchCheckpoint::add_scaler(const train::GradScaler& scaler,
                                             const std::string& slot) {
  new_slot(scalers_, "scaler", slot) = scaler.state();
  return *this;
}

TorchCheckpoint& TorchCheckpoint::set(const std::string& key, Json value) {
  detail::require_storable(key, value, kStateLimits.depth - 2);  // {"state": {key: ...
  state_[key] = std::move(value);
  return *this;
}

const Json& TorchCheckpoint::get(const std::string& key) const {
  auto found = state_.find(key);
  if (found != state_.end()) return *found;
  std::string keys;
  for (auto& [name, value] : state_.items()) keys += (keys.empty() ? "" : ", ") + name;
  throw Error(ErrorKind::kNotFound, manta::str("TorchCheckpoint: nothing was set as '", key,
                                               "'; there is: ", keys.empty() ? "nothing" : keys));
}

const std::vector<NamedTensor>& TorchCheckpoint::tensors(const std::string& slot) const {
  const ModelTensors& model = find_slot(models_, "model", slot);
  auto shards = model_shards_.find(slot);
  if (shards == model_shards_.end()) return model.tensors;
  std::vector<NamedTensor>& whole = whole_models_[slot];
  if (whole.empty()) whole = detail::whole_tensors(model.tensors, shards->second.get());
  return whole;
}

LoadReport TorchCheckpoint::load_module(const std::string& slot, torch::nn::Module& module,
                                        const LoadModelOptions& options) const {
  // Does not use tensors(slot), which would put the whole model into this worker's memory.
  auto shards = model_shards_.find(slot);
  auto stored = detail::entries_of(find_slot(models_, "model", slot).tensors,
                                   shards == model_shards_.end() ? nullptr : shards->second.get());
  std::vector<NamedTensor> expected = tensors_of(module);
  LoadReport report;
  std::string problems;
  std::set<std::string> names;
  for (const NamedTensor& item : expected) {
    names.insert(item.name);
    auto found = stored.find(item.name);
    if (found == stored.end()) {
      report.missing.push_back(item.name);
      problems += "\n  missing: " + item.name;
    } else if (item.tensor.sizes() != found->second.sizes) {
      report.other_shape.push_back(item.name);
      problems += manta::str("\n  ", item.name, ": ", c10::IntArrayRef(found->second.sizes),
                             " in the checkpoint, ", item.tensor.sizes(), " in the model");
    } else {
      report.loaded.push_back(item.name);
    }
  }
  for (const auto& [name, entry] : stored) {
    if (names.contains(name)) continue;
    report.unexpected.push_back(name);
    problems += "\n  not in the model: " + name;
  }
  bool nothing_fits = report.loaded.empty() && !expected.empty();
  if (!problems.empty() && (options.strict || nothing_fits)) {
    throw Error(ErrorKind::kInvalidArgument, manta::str("TorchCheckpoint: the weights of '", slot,
                                                        "' do not fit the model:", problems));
  }
  for (const NamedTensor& item : expected) {
    auto found = stored.find(item.name);
    if (found != stored.end() && item.tensor.sizes() == found->second.sizes)
      detail::load_entry(item.name, found->second, item.tensor);
  }
  return report;
}

void TorchCheckpoint::load_optimizer(torch::optim::Optimizer& optimizer) const {
  load_optimizer(kOptimizerSlot, optimizer);
}

void TorchCheckpoint::load_optimizer(const std::string& slot,
                                     torch::optim::Optimizer& optimizer) const {
  const OptimizerData& stored = find_slot(optimizers_, "optimizer", slot);
  auto shards = optimizer_shards_.find(slot);
  bool is_split = shards != optimizer_shards_.end();
  bool split = is_split || detail::has_shards(optimizer);
  detail::write_optimizer(optimizer, stored.description,
                          split
                              ? detail::optimizer_tensors(optimizer, stored.tensors,
                                                          is_split ? shards->second.get() : nullptr)
                              : by_name(stored.tensors),
                          cannot_load("optimizer", slot));
}

void TorchCheckpoint::load_scheduler(torch::optim::LRScheduler& scheduler) const {
  load_scheduler(kSchedulerSlot, scheduler);
}

void TorchCheckpoint::load_scheduler(const std::string& slot,
                                     torch::optim::LRScheduler& scheduler) const {
  detail::write_scheduler(scheduler, find_slot(schedulers_, "scheduler", slot),
                          cannot_load("scheduler", slot));
}

void TorchCheckpoint::load_scheduler(torch::optim::ReduceLROnPlateauScheduler& scheduler) const {
  load_scheduler(kSchedulerSlot, scheduler);
}

void TorchCheckpoint::load_scheduler(const std::string& slot,
                                     torch::optim::ReduceLROnPlateauScheduler& scheduler) const {
  detail::write_scheduler(scheduler, find_slot(schedulers_, "scheduler", slot),
                          cannot_load("scheduler", slot));
}

void TorchCheckpoint::load_stateful(const std::string& slot, StatefulScheduler& scheduler) const {
  detail::write_scheduler(scheduler, find_slot(schedulers_, "scheduler", slot),
                          cannot_load("scheduler", slot));
}

void TorchCheckpoint::load_scaler(train::GradScaler& scaler, const std::string& slot) const {
  const Json& stored = find_slot(scalers_, "scaler", slot);
  try {
    scaler.load_state(stored);
  } catch (const Error& error) {
    throw Error(error.kind(), cannot_load("scaler", slot) + error.what());
  }
}

std::shared_ptr<CheckpointSource> TorchCheckpoint::source(
    const TorchCheckpointOptions& options) const {
  detail::SourceParts parts;
  for (const auto& [slot, model] : models_) {
    auto end = model.tensors.begin() + static_cast<std::ptrdiff_t>(model.parameters);
    parts.parameters.insert(parts.parameters.end(), model.tensors.begin(), end);
  }
  parts.stepped = stepped_;
  auto* session = train::Session::current_or_null();
  int rank = options.rank >= 0 || !session ? options.rank : session->begin().rank;
  Json sharded = {{"models", Json::object()}, {"optimizers", Json::object()}};
  // A checkpoint that was read has the shares of all workers: rank 0 writes it as a whole.
  auto tensors_and_shares = [&](const char* kind, const std::string& slot, const std::string& file,
                                const std::vector<NamedTensor>& plain, const Shards& all) {
    auto found = all.find(slot);
    if (found == all.end()) return plain;
    const detail::StoredShards& shards = *found->second;
    if (shards.is_read) return rank > 0 ? plain : detail::whole_tensors(plain, &shards);
    sharded[kind][slot] = shards.description();
    parts.files.push_back({detail::shard_file(file, shards.rank, shards.world), shards.parts()});
    parts.is_share = true;
    return plain;
  };
  Json models = Json::array(), optimizers = Json::object();
  std::vector<detail::TensorFile> of_rank_zero;
  for (const auto& [slot, model] : models_) {
    models.push_back(slot);
    std::string file = model_file(slot);
    of_rank_zero.push_back(
        {file, tensors_and_shares("models", slot, file, model.tensors, model_shards_)});
  }
  for (const auto& [slot, optimizer] : optimizers_) {
    optimizers[slot] = optimizer.description;
    std::string file = optimizer_file(slot);
    of_rank_zero.push_back(
        {file, tensors_and_shares("optimizers", slot, file, optimizer.tensors, optimizer_shards_)});
  }
  if (rank > 0) return detail::torch_source(std::move(parts));

  Json set = state_;
  Json numbers = detail::take_odd_numbers(set);
  Json state = {{"format", kFormat},
                {"state", std::move(set)},
                {"models", std::move(models)},
                {"optimizers", std::move(optimizers)},
                {"schedulers", Json(schedulers_)},
                {"scalers", Json(scalers_)}};
  if (!numbers.empty()) state["numbers"] = std::move(numbers);
  if (parts.is_share) state["sharded"] = std::move(sharded);
  std::string text = state.dump(2);
  if (text.size() > kStateLimits.bytes) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("TorchCheckpoint: what was set takes ", text.size(), " bytes; at most ",
                           kStateLimits.bytes, " are read again: keep large tables in files"));
  }
  std::move(of_rank_zero.begin(), of_rank_zero.end(), std::back_inserter(parts.files));
  parts.state = {kStateFile, std::move(text)};
  return detail::torch_source(std::move(parts));
}

}  // namespace manta
