#include <pthread.h>
#include <signal.h>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/callback_thread_internal.h"

namespace manta {

CallbackThread::~CallbackThread() {
  finish();
  if (thread_.joinable()) thread_.detach();  // it is the calling thread, which ends next
}

void CallbackThread::start() {
  std::lock_guard lock(mutex_);
  if (thread_.joinable()) return;
  thread_ = start_thread("the thread that calls what waits for results",
                         [calls = calls_] { run(*calls); });
}

void CallbackThread::add(std::function<void()> call) {
  {
    std::lock_guard lock(calls_->mutex);
    if (calls_->finishing) return;
    calls_->waiting.push_back(std::move(call));
  }
  calls_->changed.notify_one();
}

void CallbackThread::run(Calls& calls) {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "manta:callbacks");
  std::unique_lock lock(calls.mutex);
  while (true) {
    calls.changed.wait(lock, [&] { return calls.finishing || !calls.waiting.empty(); });
    if (calls.waiting.empty()) return;
    auto call = std::move(calls.waiting.front());
    calls.waiting.pop_front();
    lock.unlock();
    try {
      call();
    } catch (const std::exception& error) {
      log_error(str("a callback of on_ready threw: ", error.what()));
    } catch (...) {
      log_error("a callback of on_ready threw something that is no std::exception");
    }
    call = nullptr;  // destroys what the call holds without the lock
    lock.lock();
  }
}

void CallbackThread::finish() {
  {
    std::lock_guard lock(calls_->mutex);
    calls_->finishing = true;
  }
  calls_->changed.notify_one();
  std::lock_guard lock(mutex_);
  if (thread_.joinable() && thread_.get_id() != std::this_thread::get_id()) thread_.join();
}

}  // namespace manta
