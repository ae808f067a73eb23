#pragma once

#include "manta/base/names_internal.h"
#include "manta/core/function.h"

namespace manta {

/// Calls, in this process, a function that another process named, with serialised arguments.
/// Returns its serialised result and throws what it throws; Error as resolve_function.
Value call_function(const Function& function, const Value& arguments);

}  // namespace manta
