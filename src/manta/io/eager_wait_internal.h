#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// How a thread waits for something that often comes within microseconds: it looks for a while
/// before it sleeps. To fall asleep and to be woken costs both sides 25 to 50 us on a virtual
/// machine, more than most of these waits. A thread that looks takes a processor from others, so it
/// must be likely not to be in vain: it looks only where its waits were short, gives way between
/// two looks, and does not look for a while once somebody else has needed the processor. A
/// thread that usually waits long costs nothing while it does. Not thread-safe.
class EagerWait {
 public:
  /// `least`: how long it looks where its waits are usually long.
  explicit EagerWait(std::chrono::microseconds least = std::chrono::microseconds(0));

  /// Calls `look` until it returns true. False: it has not, and the caller should sleep.
  template <class Look>
  bool look(const Look& look) {
    const auto most = most_now();
    auto begin = Clock::now();
    if (begin < sleeps_until_) return false;
    ++looks_;
    for (auto now = begin; now - begin < most;) {
      ::sched_yield();  // to whoever needs this processor, maybe the one that is waited for
      bool found = look();
      auto before = std::exchange(now, Clock::now());
      bool others_ran = now - before >= kOthersRan;
      if (others_ran) give_way(now);
      if (found || others_ran) return found;
    }
    return false;
  }
  /// How long a wait was, with and without sleep.
  void add(std::chrono::nanoseconds wait);
  bool is_short() const { return usual_ < kMostSpin; }

  /// Longer waits than that are slept through, apart from the first of them.
  static constexpr std::chrono::microseconds kMostSpin{500};
  /// If giving way takes so long, others need the processor, not only the peer and its peers.
  /// Whoever looks uses up its share of it, and would wait for its turn when the frame comes;
  /// whoever sleeps is let in at once.
  static constexpr std::chrono::microseconds kOthersRan{250};
  /// So long it does not look then. Each time it gives way to somebody who has work to do costs it
  /// a share of the processor's time, and so some milliseconds of waiting. Where it finds others at
  /// work again within kFewLooks, there is more to do than processors for it, and it rests twice as
  /// long; somebody who runs now and then is no reason to.
  static constexpr std::chrono::milliseconds kLeastRest{10};
  static constexpr std::chrono::milliseconds kMostRest{1280};
  static constexpr int kFewLooks = 100;

 private:
  std::chrono::nanoseconds most_now() const;
  void give_way(Clock::time_point now);

  const bool may_look_;
  const std::chrono::nanoseconds least_;
  std::chrono::nanoseconds usual_ = 2 * kMostSpin;
  std::chrono::milliseconds rest_{0};
  int64_t looks_ = 0;  // since the last rest
  Clock::time_point sleeps_until_{};
};

}  // namespace manta
