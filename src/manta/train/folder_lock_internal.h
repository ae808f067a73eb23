#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

/// Takes the lock of a run folder, which the kernel releases when the descriptor and its copies are
/// closed, however this process ends. Does not wait: throws Error(kIo) that names the process which
/// holds it, Error(kCorrupt) if <folder>/.lock is not a file.
UniqueFd lock_folder(const std::string& folder);

}  // namespace manta::train
