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

/// What a TorchCheckpoint gives to report() on rank 0, and, without `state`, on the others if each
/// has its share of a model. stage() copies the tensors; `parameters` are
/// what its fingerprint is made of, and are let go there. The model is taken for trained if one of
/// them has a gradient, or if an optimizer `has_steps`: keeps something of steps that it has taken.
std::shared_ptr<CheckpointSource> torch_source(std::vector<TensorFile> files,
                                               std::vector<NamedTensor> parameters, TextFile state,
                                               bool has_steps = false);

/// The other ranks' part: no files, but the fingerprint.
std::shared_ptr<CheckpointSource> digest_only_source(std::vector<NamedTensor> parameters);

}  // namespace manta::detail
