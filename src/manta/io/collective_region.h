#pragma once

#include <cstddef>

#include "manta/io/unique_fd.h"

namespace manta {

/// Each rank has two slots of this size: data of a collective that is larger passes through them in
/// parts. Two parts of a slot fit a core's second-level cache.
inline constexpr size_t kCollectiveSlotBytes = 256 * 1024;
/// The most ranks that one host's group may have.
inline constexpr int kMaxCollectiveRanks = 512;

/// The bytes of a region for `size` ranks: about half a megabyte per rank.
size_t collective_region_bytes(int size);

/// The shared memory through which `size` ranks on one host run collectives, for one group: a group
/// that failed or whose ranks start again needs a new one. The driver makes it and hands the
/// descriptor to every rank. It has no name and goes with the last process that holds it.
///
/// It is zeroed, allocated at once (so that no rank is killed for lack of memory later), and sealed
/// against shrinking. Throws Error(kInvalidArgument) if `size` is not in [1, kMaxCollectiveRanks],
/// Error(kResources) if there is no memory.
UniqueFd create_shm_region(int size);

}  // namespace manta
