#pragma once

#include <sched.h>

#include <cstdint>
#include <optional>
#include <span>

namespace manta {

/// Decides when a rank leaves a core that it shares with another one of its group.
///
/// Two ranks that are woken together may get one core. Where few cores share a cache, and are busy,
/// Linux looks for no idle one when it wakes a process: for tens of milliseconds after such a
/// moment, each rank waits while the other takes its step. Where there are more cores, it finds one
/// by itself.
class CoreChoice {
 public:
  /// The core of a peer is where it was last seen: it may have left. So a rank stays the first time
  /// that it has to wait for one on its own core, and leaves at the second of two such steps in a
  /// row (a rank that finds all others there does not wait, so every other step may count).
  /// `allowed`: where this thread may run. `ranks`: the core of each rank. Returns the cores to
  /// choose from: those without a rank; empty if it stays.
  std::optional<cpu_set_t> leave(uint32_t step, const cpu_set_t& allowed,
                                 std::span<const int> ranks);

 private:
  static constexpr int kMostCores = 8;  // from where on Linux is left to find one
  std::optional<uint32_t> shared_step_;
};

/// Moves this thread to one of these cores; it may leave again at once. False if it may not run on
/// any. A thread that was free to use all cores of its cpuset remains so when that grows.
bool move_to_core(const cpu_set_t& cores);

}  // namespace manta
