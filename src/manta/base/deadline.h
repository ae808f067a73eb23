#pragma once

#include <algorithm>
#include <chrono>
#include <climits>

namespace manta {

/// A wait without a time limit: Manta watches what the caller waits for, which ends in a result or
/// an error.
inline constexpr std::chrono::nanoseconds kForever = std::chrono::nanoseconds::max();

}  // namespace manta

namespace manta::internal {

using Clock = std::chrono::steady_clock;

/// The moment at which a wait gives up. Make it once and pass it down, so that a chain of waits
/// shares one limit.
class Deadline {
 public:
  /// `timeout` from now. kForever never passes; a negative timeout has already passed.
  static Deadline after(std::chrono::nanoseconds timeout) {
    Deadline deadline;
    auto now = Clock::now();
    if (timeout < Clock::time_point::max() - now) deadline.at_ = now + timeout;
    return deadline;
  }
  static Deadline never() { return Deadline(); }

  bool is_never() const { return at_ == Clock::time_point::max(); }
  bool passed() const { return !is_never() && Clock::now() >= at_; }
  Clock::time_point at() const { return at_; }

  /// For poll(2): -1 for never, otherwise the time left, rounded up so that a poll never returns
  /// early and spins.
  int poll_milliseconds() const {
    if (is_never()) return -1;
    if (passed()) return 0;
    auto left = std::chrono::ceil<std::chrono::milliseconds>(at_ - Clock::now()).count();
    return static_cast<int>(std::clamp<long long>(left, 0, INT_MAX));
  }

 private:
  Clock::time_point at_ = Clock::time_point::max();
};

}  // namespace manta::internal
