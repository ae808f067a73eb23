#pragma once

#include <optional>
#include <utility>

#include "manta/base/queue_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// One of the three, or nothing.
struct QueuedEvent {
  std::optional<Event> event = {};
  std::optional<SendProgress> progress = {};
  std::optional<std::pair<int, SendEpoch>> epoch = {};  ///< With the attempt.
};

/// Where what happened waits for the controller, progress for whoever shows it, and epochs for the
/// callbacks.
class EventQueue : public Queue<QueuedEvent> {
 public:
  void push(Event event) { Queue::push({.event = std::move(event)}); }
  void push(SendProgress progress) { Queue::push({.progress = std::move(progress)}); }
  void push(int attempt, SendEpoch epoch) {
    Queue::push({.epoch = std::pair(attempt, std::move(epoch))});
  }
  /// Has whoever waits look around.
  void wake() { Queue::push(QueuedEvent{}); }
};

}  // namespace manta::train
