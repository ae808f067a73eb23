#pragma once

#include "manta/base/names_internal.h"
#include "manta/core/function.h"

namespace manta {

/// Calls a function that another process named, in this one, with serialised arguments. Returns
/// what it returned, serialised, and throws what it threw; Error as resolve_function.
Value call_function(const Function& function, const Value& arguments);

}  // namespace manta
