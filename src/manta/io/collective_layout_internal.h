#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>

#include "manta/io/collective_region_internal.h"
#include "manta/io/reduce_internal.h"

// The layout of a group's shared memory: a RegionHeader, one RankHeader per rank, then two slots
// per rank, from the next page on. Every rank writes only its own header and slots, and the group's
// first failure.

namespace manta {

inline constexpr uint32_t kRegionMagic = 0x4d4e5443;
inline constexpr uint32_t kRegionVersion = 2;

enum class CollectiveKind : uint8_t {
  kBarrier,
  kBroadcast,
  kAllreduce,
  kReduce,
  kAllgather,
  kGather,
  kScatter,
  kReduceScatter,
  kAlltoall,
};

/// A call of a rank. All ranks must publish the same call.
struct CollectiveCall {
  uint64_t bytes = 0;     ///< Bytes of one rank's part.
  uint32_t sequence = 0;  ///< The number of calls before it in this group, modulo 2^32.
  int32_t step = -1;      ///< The training step it belongs to; -1: none, or unknown.
  int16_t root = -1;      ///< -1 if the call has none.
  CollectiveKind kind = CollectiveKind::kBarrier;
  ElementType type = ElementType::kOther;
  ReduceKind reduce = ReduceKind::kSum;
};

enum class FailureState : uint32_t { kNone, kWriting, kWritten };

struct alignas(64) RegionHeader {
  uint32_t magic;
  uint32_t version;
  int32_t size;
  std::atomic<FailureState> failed;
  int32_t failure_kind;
  char failure_message[1024];
};

/// The phases of joining; see CollectiveMember.
enum class JoinPhase : uint32_t { kAbsent, kClaimed, kAnnounced, kWatching, kReady, kLeft };

struct RankHeader {
  /// Steps that the rank has published, modulo 2^32. Other ranks sleep on it. It shares a cache
  /// line with the calls, so that one transfer brings both.
  alignas(64) std::atomic<uint32_t> published;
  std::atomic<int32_t> cpu;  ///< The core on which the rank last published: a hint.
  CollectiveCall calls[2];   ///< Indexed by the parity of the step that began the call.
  /// The number of ranks that sleep on `published`. While it is 0, publishing makes no system call.
  alignas(64) std::atomic<uint32_t> sleepers;
  std::atomic<JoinPhase> phase;
  int32_t pid;
};
static_assert(sizeof(RankHeader) == 128);
static_assert(std::atomic<uint32_t>::is_always_lock_free);

}  // namespace manta
