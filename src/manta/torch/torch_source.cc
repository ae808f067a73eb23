#include <algorithm>
#include <iterator>
#include <optional>
#include <utility>

#include "manta/torch/parameter_digest_internal.h"
#include "manta/torch/staging_internal.h"
#include "manta/torch/torch_source_internal.h"
#include "manta/train/session_internal.h"

namespace manta::detail {
namespace {

constexpr size_t kAlignment = 64;
// Smaller ones are touched as fast as a thread is started.
constexpr size_t kWorthASpare = size_t{64} << 20;

/// Copies of tensors, next to each other in one buffer of the pool.
class StagedTensors {
 public:
  void stage(std::vector<NamedTensor>& tensors) {
    torch::NoGradGuard no_grad;
    size_t size = 0;
    for (const NamedTensor& item : tensors) size += padded(item.tensor.nbytes());
    buffer_ = StagingPool::instance().acquire(size);
    std::vector<StagedCopy> copies;
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
    copy_staged(copies);
    kept_.clear();
  }

  size_t capacity() const { return buffer_.capacity(); }

 private:
  static size_t padded(size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

  StagingPool::Buffer buffer_;
  std::vector<torch::Tensor> kept_;  // the originals, until they are copied
};

/// Rank 0's part.
class TorchSource final : public CheckpointSource {
 public:
  TorchSource(std::vector<TensorFile> files, std::vector<NamedTensor> parameters, TextFile state,
              bool has_steps)
      : files_(std::move(files)),
        parameters_(std::move(parameters)),
        state_(std::move(state)),
        is_trained_(has_steps) {}

  void stage() override {
    for (const NamedTensor& item : parameters_)
      is_trained_ = is_trained_ || item.tensor.grad().defined();
    fingerprint_ = parameter_digest(std::exchange(parameters_, {}));
    std::vector<NamedTensor> all;
    for (TensorFile& file : files_)
      std::move(file.tensors.begin(), file.tensors.end(), std::back_inserter(all));
    staged_.stage(all);
    auto next = all.begin();
    for (TensorFile& file : files_) {
      for (NamedTensor& item : file.tensors) item = std::move(*next++);
    }
  }

  void write(CheckpointFolder& folder) override {
    std::optional<SpareBuffer> spare;
    auto* session = train::Session::current_or_null();
    if (session && session->begin().max_in_flight > 1 && staged_.capacity() >= kWorthASpare)
      spare.emplace(StagingPool::instance(), staged_.capacity());
    for (TensorFile& file : files_) {
      // The key by which Python's libraries know whose layout the names follow.
      SafetensorsImage image = make_safetensors(std::move(file.tensors), {{"format", "pt"}});
      folder.write(file.name, image.parts());
    }
    if (!state_.name.empty()) folder.write(state_.name, state_.text);
    staged_ = StagedTensors();
  }

  std::optional<uint64_t> fingerprint() const override { return fingerprint_; }
  bool has_trained_model() const override { return is_trained_; }

 private:
  std::vector<TensorFile> files_;
  std::vector<NamedTensor> parameters_;
  TextFile state_;
  bool is_trained_;
  std::optional<uint64_t> fingerprint_;  // since stage(): then the loop may change the parameters
  StagedTensors staged_;
};

/// The other ranks' part: no files.
class NoFiles final : public CheckpointSource {
 public:
  explicit NoFiles(std::vector<NamedTensor> parameters) : parameters_(std::move(parameters)) {}
  void stage() override { fingerprint_ = parameter_digest(std::exchange(parameters_, {})); }
  void write(CheckpointFolder&) override {}
  std::optional<uint64_t> fingerprint() const override { return fingerprint_; }

 private:
  std::vector<NamedTensor> parameters_;
  std::optional<uint64_t> fingerprint_;
};

}  // namespace

std::shared_ptr<CheckpointSource> torch_source(std::vector<TensorFile> files,
                                               std::vector<NamedTensor> parameters, TextFile state,
                                               bool has_steps) {
  return std::make_shared<TorchSource>(std::move(files), std::move(parameters), std::move(state),
                                       has_steps);
}

std::shared_ptr<CheckpointSource> digest_only_source(std::vector<NamedTensor> parameters) {
  return std::make_shared<NoFiles>(std::move(parameters));
}

}  // namespace manta::detail
