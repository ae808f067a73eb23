#pragma once

/// Manta's own code uses by their short names what the public headers need and keep out of users'
/// way: a user's program that says `using namespace manta` may have a Frame, a Clock or a Value of
/// its own.
namespace manta {
namespace internal {}
using namespace internal;
}  // namespace manta
