#pragma once

#include <sched.h>

#include <chrono>
#include <cstdint>
#include <utility>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// How a thread waits for something that often comes within microseconds: it looks for a while
/// before it sleeps. Falling asleep and being woken costs both sides 25 to 50 us on a virtual
/// machine, more than most of these waits. A thread that looks takes a processor from others, so
/// looking must be likely to succeed: the thread looks only where its waits were short, yields the
/// processor between two looks, and stops looking for a while once another thread has needed the
/// processor. A thread whose waits are usually long costs nothing while it waits. Not thread-safe.
class EagerWait {
 public:
  /// `least`: how long it looks even where its waits are usually long.
  explicit EagerWait(std::chrono::microseconds least = std::chrono::microseconds(0));

  /// Calls `look` until it returns true. False if it has not; then the caller should sleep.
  template <class Look>
  bool look(const Look& look) {
    const auto most = most_now();
    auto begin = Clock::now();
    if (begin < sleeps_until_) return false;
    ++looks_;
    for (auto now = begin; now - begin < most;) {
      ::sched_yield();  // another thread may need this processor, perhaps the one waited for
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

  /// In waits longer than this the thread sleeps, except in the first of them.
  static constexpr std::chrono::microseconds kMostSpin{500};
  /// If a yield takes this long, other threads need the processor, not only the peer and its peers.
  /// A thread that looks uses up its share of the processor, and would have to wait for its turn
  /// when the frame comes; a thread that sleeps runs at once.
  static constexpr std::chrono::microseconds kOthersRan{250};
  /// For this long it does not look then. Each yield to a thread that has work to do costs it some
  /// milliseconds of waiting. If it finds others at work again within kFewLooks, there are fewer
  /// processors than threads with work, and it rests twice as long. A thread that runs only now and
  /// then does not lengthen the rest.
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
