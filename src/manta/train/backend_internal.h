#pragma once

#include <string>

namespace manta::train {

struct Training;

/// Adds to a run what the workers of a framework need.
using AddBackend = void (*)(Training& training);

/// Makes a framework known to Trainer by its name. The framework's public header calls it, in the
/// initialiser of an inline variable: so each program that includes the header knows it, and
/// nothing depends on which objects the linker takes from a library. Returns true.
bool register_backend(const std::string& name, AddBackend add);
/// Throws Error(kInvalidArgument), with those that are known, if it is not.
AddBackend find_backend(const std::string& name);

}  // namespace manta::train
