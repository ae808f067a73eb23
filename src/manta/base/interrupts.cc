#include <pthread.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <map>
#include <mutex>
#include <thread>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/interrupts_internal.h"
#include "manta/base/start_thread_internal.h"

namespace manta {
namespace {

constexpr int kSignals[] = {SIGINT, SIGTERM};

// What the handler uses. It runs only while the owner below has it installed.
std::atomic<int> signals_seen = 0;
std::atomic<int> wake_fd = -1;
static_assert(std::atomic<int>::is_always_lock_free, "a signal handler takes no lock");
struct sigaction actions_before[2];

void on_signal(int signal) {
  int error = errno;
  if (++signals_seen == 1) {
    uint64_t one = 1;
    (void)!::write(wake_fd, &one, sizeof(one));
  } else {
    ::sigaction(signal, &actions_before[signal == SIGINT ? 0 : 1], nullptr);
    ::raise(signal);
  }
  errno = error;
}

/// Handles the signals while there are listeners. There is one in each process.
class Owner {
 public:
  uint64_t add(std::function<void()> listener) {
    std::lock_guard one_at_a_time(changes_);
    if (!thread_.joinable()) take();
    std::lock_guard lock(mutex_);
    listeners_[++last_].call = std::move(listener);
    if (signals_seen > 0) tell(listeners_[last_]);  // the signal came before it was added
    return last_;
  }

  void remove(uint64_t number) {
    std::lock_guard one_at_a_time(changes_);
    {
      std::lock_guard lock(mutex_);
      listeners_.erase(number);
      if (!listeners_.empty()) return;
      ending_ = true;
    }
    give_back();
    wake();
    thread_.join();
  }

 private:
  struct Listener {
    std::function<void()> call;
    bool told = false;
  };

  static void tell(Listener& listener) {
    if (!std::exchange(listener.told, true)) listener.call();
  }

  void take() {
    if (fd_ < 0) fd_ = ::eventfd(0, EFD_CLOEXEC);
    if (fd_ < 0) throw_errno("eventfd");
    ending_ = false;
    signals_seen = 0;
    wake_fd = fd_;
    thread_ = start_thread("the thread that waits for Ctrl-C", [this] { listen(); });
    struct sigaction action {};
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART;
    for (int i = 0; i < 2; ++i) ::sigaction(kSignals[i], &action, &actions_before[i]);
  }

  void give_back() {
    for (int i = 0; i < 2; ++i) {
      struct sigaction now {};
      ::sigaction(kSignals[i], nullptr, &now);
      // The program may have installed its own handler meanwhile.
      if (now.sa_handler == on_signal) ::sigaction(kSignals[i], &actions_before[i], nullptr);
    }
  }

  void wake() {
    uint64_t one = 1;
    (void)!::write(fd_, &one, sizeof(one));
  }

  void listen() {
    sigset_t all;
    ::sigfillset(&all);
    ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
    ::pthread_setname_np(::pthread_self(), "manta:signals");
    while (true) {
      uint64_t count = 0;
      (void)!::read(fd_, &count, sizeof(count));
      std::lock_guard lock(mutex_);
      if (signals_seen > 0) {
        for (auto& [number, listener] : listeners_) tell(listener);
      }
      if (ending_) return;
    }
  }

  std::mutex changes_;  // guards the thread, and is held until it has ended
  std::thread thread_;
  int fd_ = -1;  // kept, as a handler may be about to write to it

  std::mutex mutex_;  // guards what the thread uses
  std::map<uint64_t, Listener> listeners_;
  uint64_t last_ = 0;
  bool ending_ = false;
};

// Leaked on purpose: a run may end while static objects are destroyed.
Owner& owner() {
  static auto* instance = new Owner;
  return *instance;
}

}  // namespace

InterruptListener::InterruptListener(std::function<void()> on_interrupt)
    : number_(owner().add(std::move(on_interrupt))) {}

InterruptListener::~InterruptListener() { owner().remove(number_); }

}  // namespace manta
