#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <span>

namespace manta {

/// Decides when a rank leaves a core that it shares with another rank of its group.
///
/// Two ranks that are woken together may get one core. If few cores share a cache, and they are
/// busy, Linux does not look for an idle core when it wakes a process. For tens of milliseconds
/// after that, each rank waits while the other takes its step. With more cores, Linux finds an idle
/// one by itself.
class CoreChoice {
 public:
  /// The core of a peer is the one where it was last seen; the peer may have left it. So a rank
  /// stays the first time it has to wait for a peer on its own core, and leaves at the second of
  /// two such steps in a row. (A rank that finds all others there does not wait, so every other
  /// step may count.) `allowed`: where this thread may run. `ranks`: the core of each rank. Returns
  /// the cores to choose from: those without a rank; empty if it stays.
  std::optional<cpu_set_t> leave(uint32_t step, const cpu_set_t& allowed,
                                 std::span<const int> ranks);

 private:
  static constexpr int kMostCores = 8;  // with this many cores or more, Linux finds one
  std::optional<uint32_t> shared_step_;
};

/// Moves this thread to one of these cores; it may leave again at once. False if it may not run on
/// any. A thread that could use all cores of its cpuset can still do so when the cpuset grows.
bool move_to_core(const cpu_set_t& cores);

}  // namespace manta
