#include <algorithm>
#include <iterator>
#include <optional>
#include <unordered_set>
#include <utility>

#include "manta/torch/gradient_sync.h"
#include "manta/torch/parameter_digest_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/staging_internal.h"
#include "manta/torch/torch_source_internal.h"
#include "manta/train/session_internal.h"

namespace manta::detail {
namespace {

constexpr size_t kAlignment = 64;
// Touching a smaller buffer takes no longer than starting a thread.
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

// Among the parameters that were trained here, and that no prepare_model keeps equal on all ranks:
// how many numbers the largest has. 0 if there are none.
int64_t largest_trained_alone(const SourceParts& parts) {
  std::unordered_set<const void*> stepped;
  for (const torch::Tensor& parameter : parts.stepped)
    stepped.insert(parameter.unsafeGetTensorImpl());
  int64_t largest = 0;
  for (const NamedTensor& item : parts.parameters) {
    const torch::Tensor& parameter = item.tensor;
    bool trained = parameter.grad().defined() || stepped.contains(parameter.unsafeGetTensorImpl());
    if (trained && !train::detail::was_prepared(parameter))
      largest = std::max(largest, parameter.numel());
  }
  return largest;
}

class TorchSource final : public CheckpointSource {
 public:
  explicit TorchSource(SourceParts parts)
      // A loop that averages a model or its gradients by hand sends all of the largest tensor.
      : was_trained_alone_(largest_trained_alone(parts) > train::largest_exchange_by_hand()),
        is_share_(parts.is_share),
        files_(std::move(parts.files)),
        parameters_(std::move(parts.parameters)),
        state_(std::move(parts.state)) {}

  void stage() override {
    fingerprint_ = parameter_digest(std::exchange(parameters_, {}));
    if (files_.empty()) return;
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
      // This key tells Python's libraries which layout the names follow.
      SafetensorsImage image = make_safetensors(std::move(file.tensors), {{"format", "pt"}});
      folder.write(file.name, image.parts());
    }
    if (!state_.name.empty()) folder.write(state_.name, state_.text);
    staged_ = StagedTensors();
  }

  std::optional<uint64_t> fingerprint() const override { return fingerprint_; }
  bool was_trained_alone() const override { return was_trained_alone_; }
  bool needs_all_ranks() const override { return is_share_; }

 private:
  bool was_trained_alone_;
  bool is_share_;
  std::vector<TensorFile> files_;
  std::vector<NamedTensor> parameters_;
  TextFile state_;
  std::optional<uint64_t> fingerprint_;  // computed by stage(): after it, the loop may change the
                                         // parameters
  StagedTensors staged_;
};

}  // namespace

std::shared_ptr<CheckpointSource> torch_source(SourceParts parts) {
  return std::make_shared<TorchSource>(std::move(parts));
}

}  // namespace manta::detail
