#pragma once

#include <string>

#include "manta/base/error.h"

namespace manta {

/// What an error of a task or of an actor's call says after which one it was: that means nothing to
/// a user who has started neither. "its process rank-0 (pid 7) was killed by SIGKILL ...", "threw
/// std::runtime_error: ..."; other errors as they are.
std::string how_it_ended(const Error& error);

}  // namespace manta
