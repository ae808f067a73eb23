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

/// The threads of an actor with a max_concurrency over 1. Each takes the call that was added first,
/// runs it to its end, and takes the next. So of those that were added and have not ended, the
/// first are under way, at most as many as there are threads.
class CallThreads {
 public:
  /// `run` must not throw. `set_waiting` is told when the first of the threads begins to wait, and
  /// when none waits any more; never by two threads at a time. Throws Error(kResources) if the
  /// threads cannot be had, all of them.
  CallThreads(int count, std::function<void(Run&)> run, std::function<void(bool)> set_waiting);
  /// finish().
  ~CallThreads();
  CallThreads(const CallThreads&) = delete;

  void add(Run call);
  /// Takes it back; false if it has begun, or is not known.
  bool remove(ObjectId id);
  /// Returns when every call that was added has ended. None may be added any more.
  void finish();

  /// Around a wait of a call for other processes. False if the calling thread is none of these.
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

  std::mutex waiting_mutex_;  // guards what follows, and is held while somebody is told
  int waiting_ = 0;

  std::vector<std::thread> threads_;
};

}  // namespace manta
