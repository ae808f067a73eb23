#pragma once

#include <linux/futex.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <climits>
#include <ctime>

namespace manta {

/// Sleeps while `*word` is `expected`, at most `timeout`; may return early. Works between
/// processes.
template <class T>
void futex_wait(std::atomic<T>& word, T expected, std::chrono::nanoseconds timeout) {
  static_assert(sizeof(T) == 4);
  timespec time{timeout.count() / 1'000'000'000, timeout.count() % 1'000'000'000};
  ::syscall(SYS_futex, &word, FUTEX_WAIT, static_cast<uint32_t>(expected), &time, nullptr, 0);
}

/// Wakes all threads that sleep on the word.
template <class T>
void futex_wake(std::atomic<T>& word) {
  static_assert(sizeof(T) == 4);
  ::syscall(SYS_futex, &word, FUTEX_WAKE, INT_MAX, nullptr, nullptr, 0);
}

}  // namespace manta
