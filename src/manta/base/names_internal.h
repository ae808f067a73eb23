#pragma once

/// Short names, for Manta's own code, of types that the public headers need but keep in a namespace
/// of their own: a user's program that says `using namespace manta` may have its own Frame, Clock
/// or Value.
namespace manta {
namespace internal {}
using namespace internal;
}  // namespace manta
