#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>

#include "manta/io/event_loop_internal.h"

namespace manta {

/// Decides which thread runs the handlers of an EventLoop: the loop's own thread, or for a while a
/// thread that waits for the result of a handler. A thread that runs the handler itself need not be
/// woken by another thread, which would take as long as a short call. Only one thread runs handlers
/// at any time, so they run in the order in which they were posted.
///
/// While another thread has the turn, the loop's own thread sleeps. If further turns are likely to
/// follow at once (one of many calls), the end of a turn does not wake it. It wakes up every kLook,
/// and takes over if no thread has had a turn since. So no handler waits longer than twice kLook.
class LoopTurn {
 public:
  explicit LoopTurn(EventLoop& loop) : loop_(loop) {}

  /// For the loop's own thread: like loop.context.run(), but where events often follow each other
  /// within microseconds, it looks for them before it sleeps (see EagerWait).
  void run();

  /// For one other thread at a time: asks the loop's thread to give up its turn. That may take a
  /// moment if it looks; if it sleeps, it happens only at the next event.
  void take();
  /// Runs the handlers that are due, if it is the caller's turn. The thread that called take()
  /// calls it again and again; so may any thread that has posted something to be done soon on the
  /// loop. The caller must not hold a lock that handlers take. Throws what a handler throws.
  void help();
  /// Ends the turn that take() began. `others_follow`: the next take() is likely within
  /// microseconds.
  void leave(bool others_follow);
  /// Call it after the loop was stopped: it returns when no other thread runs a handler any more.
  void wait_for_helpers() { std::lock_guard lock(runs_handlers_); }

 private:
  enum class Turn { kOwn, kTaken, kLeft };
  void stand_aside(std::unique_lock<std::mutex>& runs_handlers);

  static constexpr std::chrono::microseconds kLook{500};

  EventLoop& loop_;
  std::mutex runs_handlers_;  // held by the thread that runs handlers
  std::atomic<bool> comes_back_{false};
  std::atomic<uint64_t> turns_{0};
  std::atomic<Turn> turn_{Turn::kOwn};
  std::mutex mutex_;
  std::condition_variable left_;
};

}  // namespace manta
