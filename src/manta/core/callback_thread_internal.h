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
  ~CallbackThread();  ///< As `finish`.
  CallbackThread(const CallbackThread&) = delete;
  CallbackThread& operator=(const CallbackThread&) = delete;

  /// Throws Error(kResources) if the thread cannot be had; later calls of `add` then find it.
  void start();
  /// After `start`. What it throws is logged.
  void add(std::function<void()> call);
  /// Returns when everything that was added has been called and the thread has ended; on the thread
  /// itself, at once. What is added later is not called.
  void finish();

 private:
  // Also the thread's: the last call may be what ends this object.
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
