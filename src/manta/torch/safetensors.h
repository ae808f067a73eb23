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

/// A file of named tensors in the safetensors format, which Python and Hugging Face read, too.
struct Safetensors {
  std::map<std::string, at::Tensor> tensors;
  std::map<std::string, std::string> metadata;
};

/// Maps the file into memory: nothing is read until a tensor is used, and what is written into a
/// tensor stays out of the file. The tensors keep the mapping. Throws Error(kNotFound), or
/// Error(kCorrupt) naming the file and the tensor if anything in the header does not add up.
Safetensors read_safetensors(const std::string& path);

/// What such a file consists of: the parts, in order. They point into the header and into the
/// tensors, so both must stay.
struct SafetensorsImage {
  std::string header;
  std::vector<NamedTensor> tensors;  ///< In the order of the file: wide types first, then by name.
  std::vector<CheckpointFolder::Bytes> parts() const;
};

/// The tensors must be contiguous and on the CPU. Throws Error(kInvalidArgument) if a name appears
/// twice or the format does not know a type.
SafetensorsImage make_safetensors(std::vector<NamedTensor> tensors,
                                  const std::map<std::string, std::string>& metadata = {});

}  // namespace manta
