#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>
#include <utility>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"

namespace manta {

/// Holds events until the thread that decides takes them. Any thread may push.
template <class T>
class Queue {
 public:
  void push(T item) {
    std::lock_guard lock(mutex_);
    items_.push_back(std::move(item));
    changed_.notify_one();
  }
  /// The next element; nothing when the deadline has passed.
  std::optional<T> pop(Deadline deadline) {
    std::unique_lock lock(mutex_);
    auto there_is_one = [&] { return !items_.empty(); };
    if (deadline.is_never()) {
      changed_.wait(lock, there_is_one);
    } else if (!changed_.wait_until(lock, deadline.at(), there_is_one)) {
      return std::nullopt;
    }
    T item = std::move(items_.front());
    items_.pop_front();
    return item;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<T> items_;
};

}  // namespace manta
