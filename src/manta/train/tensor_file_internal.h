#pragma once

#include <map>
#include <string>

#include "manta/train/checkpoint.h"

namespace manta::train {

/// Bytes of one value of a type of safetensors; 0 if there is no such type.
size_t size_of_dtype(const std::string& dtype);

/// A file of these tensors in the safetensors format. Throws Error(kInvalidArgument) naming the
/// tensor if its number of bytes does not match its type and shape.
std::string tensor_file(const std::map<std::string, TensorBytes>& tensors);

/// The tensors of such a file. Throws Error(kCorrupt), whose message begins with `what`.
std::map<std::string, TensorBytes> read_tensor_file(const std::string& file,
                                                    const std::string& what);

}  // namespace manta::train
