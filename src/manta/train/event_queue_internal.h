#pragma once

#include <condition_variable>
#include <deque>
#include <mutex>
#include <optional>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// Where what happened waits for the controller. Any thread may push.
class EventQueue {
 public:
  void push(Event event);
  void push(SendProgress progress);
  struct Item {
    std::optional<Event> event;
    std::optional<SendProgress> progress;
  };
  /// The next thing; nothing when the deadline has passed.
  std::optional<Item> pop(Deadline deadline);

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Item> items_;
};

}  // namespace manta::train
