#pragma once

#include <string>

#include "manta/base/error.h"

namespace manta {

/// The text of an error of a task or an actor's call, without the part that names the task or call:
/// a user who has started neither does not know that name. "its process rank-0 (pid 7) was killed
/// by SIGKILL ...", "threw std::runtime_error: ..."; other errors as they are.
std::string how_it_ended(const Error& error);

}  // namespace manta
