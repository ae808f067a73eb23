#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace manta::train {

/// Does what waits for a disk, in order, so that an event loop need not. The thread starts with the
/// first job.
class DiskThread {
 public:
  ~DiskThread() { stop(); }
  /// Must not throw.
  void add(std::function<void()> job);
  /// Returns when the job at hand is done; the others are dropped.
  void stop();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace manta::train
