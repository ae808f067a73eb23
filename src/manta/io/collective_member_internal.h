#pragma once

#include <poll.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/io/collective_layout_internal.h"
#include "manta/io/core_choice_internal.h"
#include "manta/io/shared_region_internal.h"

namespace manta {

/// "allreduce (sum) of 4096 bytes of float", "broadcast from rank 2 of 8 bytes of int64".
std::string describe(const CollectiveCall& call);
/// "allreduce".
const char* name_of(CollectiveKind kind);

/// "rank 1", "ranks 1, 2".
std::string name_ranks(const std::vector<int>& ranks);
/// "1.5 s".
std::string in_seconds(std::chrono::nanoseconds time);

/// One process's seat in a group: it joins, publishes steps, waits for the others, and learns of
/// their death. Not thread-safe.
///
/// A step is a barrier: fill the own slot, publish, wait until every rank has published. There are
/// two slots, used in turn. A rank that publishes step k has finished reading the slots of step
/// k-1. So after the wait of step k, the slot of step k-1 may be filled for step k+1.
class CollectiveMember {
 public:
  /// Takes the seat and waits for all others. A second and a third announcement make sure that the
  /// processes which are watched are those that announced themselves. Throws Error(kTimeout) naming
  /// the ranks that did not join, Error(kWorkerLost) naming one that died, Error(kInvalidArgument)
  /// if the seat is taken, Error(kCorrupt) if the descriptor is no region for `size` ranks.
  CollectiveMember(UniqueFd region, int rank, int size, std::chrono::nanoseconds timeout);
  /// Leaves: a rank that waits for this one fails at once.
  ~CollectiveMember();
  CollectiveMember(const CollectiveMember&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  uint32_t step() const { return step_; }

  /// A rank's slot of a step.
  std::byte* slot(int rank, uint32_t step) const {
    return slots_ + (2 * static_cast<size_t>(rank) + step % 2) * kCollectiveSlotBytes;
  }

  /// Publishes the current step. `call` is set if this is the call's first step.
  void publish(const CollectiveCall* call);
  /// Waits until every rank has published the step that this rank published last. Errors name
  /// `call`.
  void wait(const CollectiveCall& call, const Deadline& deadline);
  /// Throws unless every rank published the same call at this step, for the same training step. The
  /// error is the same on all.
  void check_calls(uint32_t step);

  /// Makes the group fail everywhere, with this cause unless there is one already.
  void fail(ErrorKind kind, const std::string& message);
  /// Throws the group's failure if it has one.
  void throw_if_failed();

 private:
  RankHeader& header(int rank) const { return headers_[rank]; }
  /// How long a rank sleeps before it checks on the others: a death is noticed after at most this
  /// time.
  static constexpr std::chrono::milliseconds kSlice{5};

  bool has_published(int rank, uint32_t steps) const;
  bool all_published(uint32_t steps) const;
  std::chrono::nanoseconds spin_time() const;
  bool spin(int rank, uint32_t steps);
  bool leave_core(uint32_t steps);
  void wait_for(int peer, uint32_t steps, const CollectiveCall& call, const Deadline& deadline);
  void sleep(int rank, uint32_t steps);
  void check_peers(const CollectiveCall& call, uint32_t steps);
  void take_seat();
  void enter(JoinPhase phase, const Deadline& deadline);
  void watch(int rank);
  std::optional<int> dead_peer();
  [[noreturn]] void fail_and_throw(ErrorKind kind, const std::string& message);

  int rank_;
  int size_;
  std::chrono::nanoseconds timeout_;
  bool may_spin_ = false;
  std::chrono::nanoseconds usual_wait_{0};  // smoothed
  CoreChoice core_choice_;
  SharedRegion mapping_;
  RegionHeader* region_ = nullptr;
  RankHeader* headers_ = nullptr;
  std::byte* slots_ = nullptr;
  uint32_t step_ = 0;
  std::vector<UniqueFd> processes_;
  std::vector<pollfd> polls_;
  std::optional<Error> failure_;
};

}  // namespace manta
