#include "manta/base/batch_work_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/disk_thread_internal.h"

namespace manta::train {

void DiskThread::add(std::function<void()> job) {
  std::lock_guard lock(mutex_);
  if (stopping_) return;
  if (!thread_.joinable())
    thread_ = start_thread("the thread that waits for the disk", [this] { run(); });
  jobs_.push_back(std::move(job));
  changed_.notify_one();
}

void DiskThread::stop() {
  {
    std::lock_guard lock(mutex_);
    stopping_ = true;
    jobs_.clear();
    changed_.notify_one();
  }
  if (thread_.joinable()) thread_.join();
}

void DiskThread::run() {
  become_batch_work();
  while (true) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [&] { return stopping_ || !jobs_.empty(); });
    if (stopping_) return;
    auto job = std::move(jobs_.front());
    jobs_.pop_front();
    lock.unlock();
    job();
  }
}

}  // namespace manta::train
