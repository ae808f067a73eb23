#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <thread>

namespace manta::train {

/// Runs jobs that wait for a disk, in order, so that an event loop need not wait. The thread starts
/// with the first job.
class DiskThread {
 public:
  ~DiskThread() { stop(); }
  /// `job` must not throw.
  void add(std::function<void()> job);
  /// Returns when the current job is done, and drops the others.
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
