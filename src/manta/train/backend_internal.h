#pragma once

#include <string>

#include "manta/train/torch_config.h"

namespace manta::train {

struct Training;

/// Adds to a run what the workers of a framework need. For frameworks other than PyTorch, it throws
/// Error(kInvalidArgument) if `config` asks for something.
using AddBackend = void (*)(Training& training, const TorchConfig& config);

/// Makes a framework known to Trainer by its name. The framework's public header calls it, in the
/// initialiser of an inline variable. So each program that includes the header knows the framework,
/// whichever objects the linker takes from a library. Returns true.
bool register_backend(const std::string& name, AddBackend add);
/// Throws Error(kInvalidArgument), which lists the known ones, if the name is unknown.
AddBackend find_backend(const std::string& name);

}  // namespace manta::train
