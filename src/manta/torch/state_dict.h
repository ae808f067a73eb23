#pragma once

#include <string>
#include <vector>

#include "manta/torch/safetensors.h"

/// Weights for and from Python: the files that `torch.save(model.state_dict(), path)` writes and
/// `torch.load(path, weights_only=True)` reads.
namespace manta {

struct ReadStateDictOptions {
  /// Where the state_dict is, if the file holds a dict of several things: {"model": state_dict,
  /// "epoch": 3} needs "model". Keys of dicts in dicts are separated by '/'. Default: it is the
  /// whole file.
  std::string key = {};
};

/// The tensors of a state_dict that Python has saved, in its order, on the CPU whatever device they
/// were on. Tensors that shared their storage in Python share it here. Reads all of it into memory.
///
/// The file may come from anybody: nothing in it is executed. It may hold dicts, OrderedDicts,
/// lists, tuples, numbers, texts, tensors and parameters, of every element type except quantized
/// ones. Anything else (a whole model, numpy arrays, sparse tensors, objects of a class) is
/// Error(kInvalidArgument), which names it. Throws Error(kNotFound), or Error(kCorrupt) naming the
/// file and what does not fit.
std::vector<NamedTensor> read_state_dict(const std::string& path,
                                         const ReadStateDictOptions& options = {});

/// Writes such a file, which appears whole or not at all, and replaces an existing one. Tensors are
/// copied to the CPU and made contiguous; those with the same memory share a storage in the file.
/// Throws Error(kInvalidArgument) if a name appears twice or a tensor has a type that the format
/// lacks (quantized, sparse), Error(kIo) if the file cannot be written.
void write_state_dict(const std::string& path, const std::vector<NamedTensor>& tensors);

}  // namespace manta
