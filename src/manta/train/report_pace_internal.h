#pragma once

#include <chrono>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta::train {

/// How the thread that hears a group waits where reports come often. To wake a thread that sleeps
/// until something comes costs who sends 10 to 25 us on a virtual machine: more than the rest of a
/// report, and the training loop pays it. So while reports follow each other within milliseconds,
/// the thread comes back by itself, four times as often as they do, and what has come meanwhile has
/// woken nobody. Everything else that workers say waits for it as well, for at most kLongestNap.
/// Not thread-safe.
class ReportPace {
 public:
  /// Some rank, always the same, has made a report.
  void add(Clock::time_point now);
  /// For how long not to look at what comes; zero: to sleep until something does.
  std::chrono::microseconds nap(Clock::time_point now) const;

  static constexpr std::chrono::microseconds kLongestNap{500};
  /// A loop that reports more often than that would wait for the thread: the ranks make each report
  /// together.
  static constexpr std::chrono::microseconds kShortestInterval{400};
  /// Where reports are rarer than that, what they cost is nothing beside what is between them.
  static constexpr std::chrono::microseconds kLongestInterval{5000};

 private:
  std::chrono::nanoseconds usual_ = 2 * kLongestInterval;  // from one report to the next
  Clock::time_point last_{};
};

}  // namespace manta::train
