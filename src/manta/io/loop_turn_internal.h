#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "manta/io/event_loop_internal.h"

namespace manta {

/// Whose turn it is to run the handlers of an EventLoop: that of the loop's own thread, or for a
/// while that of a thread which waits for what one of them brings. Who hears itself what it waits
/// for need not be told by another, which takes as long as a short call. Only one thread runs
/// handlers at any time, so they run in the order in which they were posted.
///
/// While another has the turn, the loop's own thread sleeps. A turn that others are likely to
/// follow at once, as one of many calls, ends without waking it: it wakes up every kLook, and takes
/// over if nobody has had a turn since. So nothing waits longer than twice that.
class LoopTurn {
 public:
  explicit LoopTurn(EventLoop& loop) : loop_(loop) {}

  /// For the loop's own thread: as loop.context.run(), but it looks for events before it sleeps
  /// where they often follow each other within microseconds (see EagerWait).
  void run();

  /// For one other thread at a time: the loop's thread is to sleep. That may take a moment if it
  /// looks, and happens only at the next event if it sleeps itself.
  void take();
  /// Runs what is due, if it is the caller's turn. For the thread that called take(), again and
  /// again, and for any that has left something to be done soon on the loop. The caller must not
  /// hold a lock that handlers take. Throws what a handler throws.
  void help();
  /// Ends what take() began. `others_follow`: the next take() is likely within microseconds.
  void leave(bool others_follow);
  /// After the loop was stopped: returns when no other thread runs a handler any more.
  void wait_for_helpers() { std::lock_guard lock(runs_handlers_); }

 private:
  enum class Turn { kOwn, kTaken, kLeft };
  void stand_aside(std::unique_lock<std::mutex>& runs_handlers);

  static constexpr std::chrono::microseconds kLook{500};

  EventLoop& loop_;
  std::mutex runs_handlers_;  // held by whoever does
  std::atomic<bool> comes_back_{false};
  std::atomic<uint64_t> turns_{0};
  std::atomic<Turn> turn_{Turn::kOwn};
  std::mutex mutex_;
  std::condition_variable left_;
};

}  // namespace manta
