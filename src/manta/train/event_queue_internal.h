#pragma once

#include <atomic>
#include <functional>
#include <optional>
#include <utility>

#include "manta/base/queue_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// One of these, or nothing.
struct QueuedEvent {
  std::optional<Event> event = {};
  std::function<void()> step = {};  ///< The next step after work of another thread.
  std::optional<SendProgress> progress = {};
  std::optional<std::pair<int, SendEpoch>> epoch = {};  ///< With the attempt.
};

/// Holds events for the controller, progress for the screen, epochs for the callbacks, and steps of
/// a commit for the thread of the run.
class EventQueue : public Queue<QueuedEvent> {
 public:
  void push(Event event) {
    if (std::holds_alternative<Interrupted>(event)) interrupted_ = true;
    Queue::push({.event = std::move(event)});
  }
  /// The waiting thread runs the step.
  void push_step(std::function<void()> step) { Queue::push({.step = std::move(step)}); }
  void push(SendProgress progress) { Queue::push({.progress = std::move(progress)}); }
  void push(int attempt, SendEpoch epoch) {
    Queue::push({.epoch = std::pair(attempt, std::move(epoch))});
  }
  /// Wakes the waiting thread without an event.
  void wake() { Queue::push(QueuedEvent{}); }
  /// Whether the run was ever asked to end: for a thread that does not pop because it is working.
  bool interrupted() const { return interrupted_; }

 private:
  std::atomic<bool> interrupted_ = false;
};

}  // namespace manta::train
