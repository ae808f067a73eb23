#pragma once

#include <chrono>

#include "manta/io/channel_internal.h"

namespace manta {

/// Receives from a peer whose next frame often follows within microseconds: then it looks for the
/// frame for a while before it sleeps. To fall asleep and to be woken costs both sides more than
/// such a wait: requests to a model took 230 us one after the other, of which this saved 90, and
/// the processors' time for one went down as well. Where others need the processor, it sleeps.
class EagerReceiver {
 public:
  explicit EagerReceiver(Channel& channel);

  /// As Channel::receive without a deadline.
  bool receive(Frame* frame);

  /// Longer waits than that are slept through, apart from the first of them.
  static constexpr std::chrono::microseconds kMostSpin{500};

  /// When to look before sleeping, from how long the waits were: a thread that looks takes a
  /// processor from others, so it must be likely not to be in vain.
  class Habit {
   public:
    bool is_short() const { return usual_ < kMostSpin; }
    void add(std::chrono::nanoseconds wait);

   private:
    std::chrono::nanoseconds usual_ = 2 * kMostSpin;
  };

 private:
  Channel& channel_;
  const bool may_look_;
  Habit habit_;
};

}  // namespace manta
