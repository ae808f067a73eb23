#include "manta/base/names_internal.h"
#include "manta/train/event_queue_internal.h"

namespace manta::train {

void EventQueue::push(Event event) {
  std::lock_guard lock(mutex_);
  items_.push_back({std::move(event), {}});
  changed_.notify_one();
}

void EventQueue::push(SendProgress progress) {
  std::lock_guard lock(mutex_);
  items_.push_back({{}, std::move(progress)});
  changed_.notify_one();
}

std::optional<EventQueue::Item> EventQueue::pop(Deadline deadline) {
  std::unique_lock lock(mutex_);
  auto there_is_one = [&] { return !items_.empty(); };
  if (deadline.is_never()) {
    changed_.wait(lock, there_is_one);
  } else if (!changed_.wait_until(lock, deadline.at(), there_is_one)) {
    return std::nullopt;
  }
  Item item = std::move(items_.front());
  items_.pop_front();
  return item;
}

}  // namespace manta::train
