#pragma once

#include <string>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

inline constexpr const char* kLockFile = ".lock";

/// Takes the lock of a run folder, which the kernel releases when the descriptor and its copies are
/// closed, in whatever way this process ends. Does not wait: throws Error(kIo) that names the
/// process which holds it, Error(kCorrupt) if <folder>/.lock is not a file.
UniqueFd lock_folder(const std::string& folder);
/// The same for a file that the user has named, with a lock file .<name>.lock next to it. Makes the
/// folder. Throws Error(kInvalidArgument) if another run has it.
UniqueFd lock_file_of_run(const std::string& path);
/// The same for a folder that TensorBoard reads, with a lock file .tensorboard.lock in it.
UniqueFd lock_folder_of_run(const std::string& path);
/// False if <folder>/.lock is now another file or is missing: the folder was removed or moved. True
/// if that cannot be determined at the moment.
bool is_still_locked(const std::string& folder, const UniqueFd& lock);

}  // namespace manta::train
