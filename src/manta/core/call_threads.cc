#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/call_threads_internal.h"

namespace manta {
namespace {

thread_local const CallThreads* threads_of_caller = nullptr;

}  // namespace

CallThreads::CallThreads(int count, std::function<void(Run&)> run,
                         std::function<void(bool)> set_waiting)
    : run_(std::move(run)), set_waiting_(std::move(set_waiting)) {
  try {
    for (int i = 1; i <= count; ++i) {
      threads_.push_back(start_thread(
          str("thread ", i, " of the ", count, " that run an actor's calls (max_concurrency)"),
          [this] { serve(); }));
    }
  } catch (...) {
    finish();
    throw;
  }
}

CallThreads::~CallThreads() { finish(); }

void CallThreads::add(Run call) {
  std::lock_guard lock(mutex_);
  calls_.push_back(std::move(call));
  changed_.notify_one();
}

bool CallThreads::remove(ObjectId id) {
  std::lock_guard lock(mutex_);
  return std::erase_if(calls_, [&](const Run& call) { return call.spec.id == id; }) > 0;
}

void CallThreads::finish() {
  {
    std::lock_guard lock(mutex_);
    finishing_ = true;
    changed_.notify_all();
  }
  for (std::thread& thread : threads_) thread.join();
  threads_.clear();
}

void CallThreads::serve() {
  threads_of_caller = this;
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [&] { return !calls_.empty() || finishing_; });
    if (calls_.empty()) return;
    Run call = std::move(calls_.front());
    calls_.pop_front();
    lock.unlock();
    run_(call);
    lock.lock();
  }
}

bool CallThreads::is_caller() const { return threads_of_caller == this; }

bool CallThreads::begin_wait() {
  if (!is_caller()) return false;
  std::lock_guard lock(waiting_mutex_);
  if (++waiting_ == 1) set_waiting_(true);
  return true;
}

bool CallThreads::end_wait() {
  if (!is_caller()) return false;
  std::lock_guard lock(waiting_mutex_);
  if (--waiting_ == 0) set_waiting_(false);
  return true;
}

}  // namespace manta
