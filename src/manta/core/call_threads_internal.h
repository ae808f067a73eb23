#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

/// The threads of an actor with a max_concurrency over 1. Each thread takes the oldest call that
/// waits, runs it to its end, and takes the next. So at any time the calls under way are the oldest
/// of those that have not ended, at most one for each thread.
class CallThreads {
 public:
  /// `run` must not throw. `set_waiting` is called when the first of the threads begins to wait,
  /// and when none waits any more; never by two threads at a time. Throws Error(kResources) unless
  /// all threads can be started.
  CallThreads(int count, std::function<void(Run&)> run, std::function<void(bool)> set_waiting);
  /// Calls finish().
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;

  void add(Run call);
  /// Takes the call back; false if it has begun, or is not known.
  bool remove(ObjectId id);
  /// Returns when every call that was added has ended. No call may be added after this.
  void finish();

  /// Mark the time in which a call waits for other processes. False if the calling thread is not
  /// one of these threads.
  bool begin_wait();
  bool end_wait();

 private:
  void serve();
  bool is_caller() const;

  const std::function<void(Run&)> run_;
  const std::function<void(bool)> set_waiting_;

  std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  std::deque<Run> calls_;
  bool finishing_ = false;

  std::mutex waiting_mutex_;  // guards what follows, and is held while `set_waiting` runs
  int waiting_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace manta
