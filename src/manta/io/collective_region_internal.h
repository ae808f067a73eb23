#pragma once

#include <cstddef>

#include "manta/base/names_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// Each rank has two slots of this size. A collective on more data passes it through them in parts.
/// Two parts of a slot fit a core's second-level cache.
inline constexpr size_t kCollectiveSlotBytes = 256 * 1024;
/// The maximum number of ranks in one host's group.
inline constexpr int kMaxCollectiveRanks = 512;

/// The size in bytes of a region for `size` ranks: about half a megabyte per rank.
size_t collective_region_bytes(int size);

/// The shared memory through which `size` ranks on one host run collectives. It serves one group: a
/// group that failed, or whose ranks restart, needs a new one. The driver makes it and hands the
/// descriptor to every rank. It has no name, and is freed with the last process that holds it.
///
/// It is zeroed, allocated at once (so that no rank is killed for lack of memory later), and sealed
/// against shrinking. Throws Error(kInvalidArgument) if `size` is not in [1, kMaxCollectiveRanks],
/// Error(kResources) if there is not enough memory.
UniqueFd create_shm_region(int size);

}  // namespace manta
