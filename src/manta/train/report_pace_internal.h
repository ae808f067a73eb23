#pragma once

#include <chrono>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta::train {

/// How the thread that receives a group's messages waits when reports come often. Waking a thread
/// costs the sender 10 to 25 us on a virtual machine: more than the rest of a report, and the
/// training loop pays for it. So while reports follow each other within milliseconds, the thread
/// wakes up by itself, four times as often as reports come, and messages that come meanwhile wake
/// no thread. All other messages of workers wait for it as well, for at most kLongestNap. Not
/// thread-safe.
class ReportPace {
 public:
  /// Call it when a certain rank, always the same, has made a report.
  void add(Clock::time_point now);
  /// For how long not to look for messages; zero: sleep until one comes.
  std::chrono::microseconds nap(Clock::time_point now) const;

  static constexpr std::chrono::microseconds kLongestNap{500};
  /// A loop that reports more often than this would wait for the thread: the ranks make each report
  /// together.
  static constexpr std::chrono::microseconds kShortestInterval{400};
  /// If reports are rarer than this, their cost does not matter.
  static constexpr std::chrono::microseconds kLongestInterval{5000};

 private:
  std::chrono::nanoseconds usual_ = 2 * kLongestInterval;  // from one report to the next
  Clock::time_point last_{};
};

}  // namespace manta::train
