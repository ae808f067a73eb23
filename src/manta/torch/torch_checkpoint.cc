#include "manta/torch/torch_checkpoint.h"

#include <algorithm>
#include <sstream>
#include <utility>

#include "manta/base/error.h"
#include "manta/torch/optimizer_state_internal.h"
#include "manta/torch/staging_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/session_internal.h"

namespace manta {
namespace {

constexpr const char* kModelFile = "model.safetensors";
constexpr const char* kOptimizerFile = "optimizer.safetensors";
constexpr const char* kStateFile = "state.json";
constexpr int kFormat = 1;
constexpr size_t kAlignment = 64;
// What `set` takes is up to the user.
constexpr JsonLimits kStateLimits{
    .bytes = size_t{1} << 30, .depth = 1000, .values = size_t{64} << 20};

/// Copies of tensors, next to each other in one buffer of the pool.
class StagedTensors {
 public:
  void stage(std::vector<NamedTensor>& tensors) {
    torch::NoGradGuard no_grad;
    size_t size = 0;
    for (const NamedTensor& item : tensors) size += padded(item.tensor.nbytes());
    buffer_ = detail::StagingPool::instance().acquire(size);
    std::vector<detail::StagedCopy> copies;
    char* next = buffer_.data();
    for (NamedTensor& item : tensors) {
      const torch::Tensor& from = item.tensor;
      auto options = torch::TensorOptions().dtype(from.scalar_type());
      torch::Tensor to = torch::from_blob(next, from.sizes(), options);
      if (from.is_cpu() && from.is_contiguous()) {
        copies.push_back({from.const_data_ptr(), next, from.nbytes()});
      } else {
        to.copy_(from);
      }
      next += padded(from.nbytes());
      kept_.push_back(std::exchange(item.tensor, to));
    }
    detail::copy_staged(copies);
    kept_.clear();
  }

 private:
  static size_t padded(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

  detail::StagingPool::Buffer buffer_;
  std::vector<torch::Tensor> kept_;  // the originals, until they are copied
};

class TorchSource final : public CheckpointSource {
 public:
  TorchSource(std::vector<NamedTensor> model, std::vector<NamedTensor> optimizer,
              bool has_optimizer, std::string state)
      : model_(std::move(model)),
        optimizer_(std::move(optimizer)),
        has_optimizer_(has_optimizer),
        state_(std::move(state)) {}

  void stage() override {
    std::vector<NamedTensor> all = std::move(model_);
    size_t count = all.size();
    std::move(optimizer_.begin(), optimizer_.end(), std::back_inserter(all));
    staged_.stage(all);
    auto middle = all.begin() + static_cast<std::ptrdiff_t>(count);
    model_.assign(all.begin(), middle);
    optimizer_.assign(middle, all.end());
  }

  void write(CheckpointFolder& folder) override {
    write_tensors(folder, kModelFile, std::move(model_));
    if (has_optimizer_) write_tensors(folder, kOptimizerFile, std::move(optimizer_));
    folder.write(kStateFile, state_);
    staged_ = StagedTensors();
  }

 private:
  static void write_tensors(CheckpointFolder& folder, const char* file,
                            std::vector<NamedTensor> tensors) {
    // The key by which Python's libraries know whose layout the names follow.
    SafetensorsImage image = make_safetensors(std::move(tensors), {{"format", "pt"}});
    folder.write(file, image.pieces());
  }

  std::vector<NamedTensor> model_;
  std::vector<NamedTensor> optimizer_;
  bool has_optimizer_;
  std::string state_;
  StagedTensors staged_;
};

/// The other ranks' part: no files.
class NoFiles final : public CheckpointSource {
  void stage() override {}
  void write(CheckpointFolder&) override {}
};

Json read_state(const std::string& path) {
  Json state = train::read_json(path, kStateLimits);
  if (!state.is_object() || !state.contains("format") || !state.contains("state") ||
      !state["state"].is_object()) {
    throw Error(ErrorKind::kCorrupt, path + " is not the state of a TorchCheckpoint");
  }
  if (state["format"] != kFormat) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str(path, " has format ", state["format"], ", this program knows ", kFormat,
                           "; load it with a newer version"));
  }
  return state;
}

std::vector<NamedTensor> read_tensors(const std::string& path) {
  std::vector<NamedTensor> tensors;
  for (auto& [name, tensor] : read_safetensors(path).tensors) tensors.push_back({name, tensor});
  return tensors;
}

std::vector<NamedTensor> tensors_of(const torch::nn::Module& module) {
  std::vector<NamedTensor> tensors;
  for (const auto& item : module.named_parameters()) tensors.push_back({item.key(), item.value()});
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
  model_ = read_tensors(checkpoint.file(kModelFile));
  if (!state.contains("optimizer")) return;
  optimizer_ = std::move(state["optimizer"]);
  optimizer_tensors_ = read_tensors(checkpoint.file(kOptimizerFile));
}

void TorchCheckpoint::add_model(const torch::nn::Module& module) { model_ = tensors_of(module); }

TorchCheckpoint& TorchCheckpoint::add_optimizer(const torch::optim::Optimizer& optimizer) {
  detail::OptimizerState state = detail::read_optimizer(optimizer);
  optimizer_ = std::move(state.description);
  optimizer_tensors_ = std::move(state.tensors);
  return *this;
}

TorchCheckpoint& TorchCheckpoint::set(const std::string& key, Json value) {
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

void TorchCheckpoint::load_module(torch::nn::Module& module) const {
  std::map<std::string, torch::Tensor> stored = by_name(model_);
  std::vector<NamedTensor> expected = tensors_of(module);
  std::string problems;
  for (const NamedTensor& item : expected) {
    auto found = stored.find(item.name);
    if (found == stored.end()) {
      problems += "\n  missing: " + item.name;
    } else if (found->second.sizes() != item.tensor.sizes()) {
      problems += manta::str("\n  ", item.name, ": ", found->second.sizes(), " in the checkpoint, ",
                             item.tensor.sizes(), " in the model");
    }
  }
  std::map<std::string, torch::Tensor> names = by_name(expected);
  for (const NamedTensor& item : model_) {
    if (!names.contains(item.name)) problems += "\n  not in the model: " + item.name;
  }
  if (!problems.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "TorchCheckpoint: the weights do not fit the model:" + problems);
  }
  torch::NoGradGuard no_grad;
  for (NamedTensor& item : expected) item.tensor.copy_(stored.at(item.name));
}

void TorchCheckpoint::load_optimizer(torch::optim::Optimizer& optimizer) const {
  if (!has_optimizer()) {
    throw Error(ErrorKind::kNotFound,
                "TorchCheckpoint: it has no optimizer; give one to from_model when it is made");
  }
  detail::write_optimizer(optimizer, optimizer_, by_name(optimizer_tensors_));
}

std::shared_ptr<CheckpointSource> TorchCheckpoint::source(
    const TorchCheckpointOptions& options) const {
  auto* session = train::Session::current_or_null();
  int rank = options.rank >= 0 || !session ? options.rank : session->begin().rank;
  if (rank > 0) return std::make_shared<NoFiles>();
  Json state = {{"format", kFormat}, {"state", state_}};
  if (has_optimizer()) state["optimizer"] = optimizer_;
  return std::make_shared<TorchSource>(model_, optimizer_tensors_, has_optimizer(), state.dump(2));
}

}  // namespace manta
