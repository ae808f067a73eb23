#pragma once

#include <string>

#include "manta/train/torch_config.h"

namespace manta::train {

struct Training;

/// Adds to a run what the workers of a framework need. One that is not PyTorch's throws
/// Error(kInvalidArgument) if `config` asks for something.
using AddBackend = void (*)(Training& training, const TorchConfig& config);

/// Makes a framework known to Trainer by its name. The framework's public header calls it, in the
/// initialiser of an inline variable: so each program that includes the header knows it, and
/// nothing depends on which objects the linker takes from a library. Returns true.
bool register_backend(const std::string& name, AddBackend add);
/// Throws Error(kInvalidArgument), with those that are known, if it is not.
AddBackend find_backend(const std::string& name);

}  // namespace manta::train
