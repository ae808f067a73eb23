#include <algorithm>
#include <thread>
#include <utility>

#include "manta/io/eager_wait_internal.h"

namespace manta {

// With one processor, a thread that looks keeps the thread it waits for from running.
EagerWait::EagerWait(std::chrono::microseconds least)
    : may_look_(std::thread::hardware_concurrency() > 1), least_(least) {}

std::chrono::nanoseconds EagerWait::most_now() const {
  if (!may_look_) return std::chrono::nanoseconds(0);
  return is_short() ? std::chrono::nanoseconds(kMostSpin) : least_;
}

void EagerWait::add(std::chrono::nanoseconds wait) {
  usual_ += (std::min<std::chrono::nanoseconds>(wait, 2 * kMostSpin) - usual_) / 4;
}

void EagerWait::give_way(Clock::time_point now) {
  bool again = std::exchange(looks_, 0) <= kFewLooks;
  rest_ = again ? std::clamp(2 * rest_, kLeastRest, kMostRest) : kLeastRest;
  sleeps_until_ = now + rest_;
}

}  // namespace manta
