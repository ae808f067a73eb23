#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace manta {

/// Calls functions one after the other, in the order in which they were added, on a thread of its
/// own that starts with the first. Thread-safe.
class CallbackThread {
 public:
  CallbackThread() = default;
  ~CallbackThread();  ///< Calls `finish`.
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  /// Starts the thread, for later calls of `add`. Throws Error(kResources) if it cannot be started.
  void start();
  /// Call it after `start`. An exception of `call` is logged.
  void add(std::function<void()> call);
  /// Returns when all functions that were added have been called and the thread has ended; on the
  /// thread itself, it returns at once. Functions that are added later are not called.
  void finish();

 private:
  // The thread owns it, too: the last call may destroy this object.
  struct Calls {
    std::mutex mutex;
    std::condition_variable changed;
    std::deque<std::function<void()>> waiting;
    bool finishing = false;
  };
  static void run(Calls& calls);

  std::shared_ptr<Calls> calls_ = std::make_shared<Calls>();
  std::mutex mutex_;  // guards the next
  std::thread thread_;
};

}  // namespace manta
