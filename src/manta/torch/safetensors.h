#pragma once

#include <ATen/core/Tensor.h>

#include <map>
#include <string>
#include <vector>

#include "manta/train/checkpoint.h"

namespace manta {

struct NamedTensor {
  std::string name;
  at::Tensor tensor;
};

/// A file of named tensors in the safetensors format, which Python and Hugging Face also read.
struct Safetensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Maps the file into memory: nothing is read until a tensor is used, and writing to a tensor does
/// not change the file. The tensors keep the mapping alive. Throws Error(kNotFound), or
/// Error(kCorrupt) naming the file and the tensor if the header is inconsistent.
Safetensors read_safetensors(const std::string& path);

/// The contents of such a file, as parts in order. They point into the header and the tensors, so
/// both must stay alive.
struct SafetensorsImage {
  std::string header;
  std::vector<NamedTensor> tensors;  ///< In the order of the file: wide types first, then by name.
  std::vector<CheckpointFolder::Bytes> parts() const;
};

/// The tensors must be contiguous and on the CPU. Throws Error(kInvalidArgument) if a name appears
/// twice, or if the format does not have a tensor's type.
SafetensorsImage make_safetensors(std::vector<NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata = {});

}  // namespace manta
