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

/// A rank's part of a checkpoint. Ranks other than 0 give only their share of split tensors, or no
/// files.
struct SourceParts {
  std::vector<TensorFile> files;
  TextFile state = {};
  bool is_share = false;  ///< The checkpoint needs the shares of all ranks.
  /// The fingerprint is made from these. They are released when the source is staged.
  std::vector<NamedTensor> parameters;
  /// Parameters for which an optimizer keeps state. These, and parameters that have a gradient,
  /// were trained here.
  std::vector<torch::Tensor> stepped = {};
};

/// The source that a TorchCheckpoint gives to report(). stage() copies the tensors.
std::shared_ptr<CheckpointSource> torch_source(SourceParts parts);

}  // namespace manta::detail
