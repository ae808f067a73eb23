#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/torch/safetensors.h"
#include "manta/train/checkpoint.h"

namespace manta::detail {

struct TensorFile {
  std::string name;
  std::vector<NamedTensor> tensors;
};
struct TextFile {
  std::string name;
  std::string text;
};

/// What a rank gives of a checkpoint. Others than rank 0 give their share of what is split, and
/// otherwise no files.
struct SourceParts {
  std::vector<TensorFile> files;
  TextFile state = {};
  bool is_share = false;  ///< The checkpoint needs those of all ranks.
  /// Of what the fingerprint is made. They are let go when the source is staged.
  std::vector<NamedTensor> parameters;
  /// Those of which an optimizer keeps something. They, and those that have a gradient, were
  /// trained here.
  std::vector<torch::Tensor> stepped = {};
};

/// What a TorchCheckpoint gives to report(). stage() copies the tensors.
std::shared_ptr<CheckpointSource> torch_source(SourceParts parts);

}  // namespace manta::detail
