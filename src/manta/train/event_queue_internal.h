#pragma once

#include <optional>
#include <utility>

#include "manta/base/queue_internal.h"
#include "manta/train/controller_internal.h"
#include "manta/train/messages_internal.h"

namespace manta::train {

/// One of the two.
struct QueuedEvent {
  std::optional<Event> event;
  std::optional<SendProgress> progress;
};

/// Where what happened waits for the controller, and progress for whoever shows it.
class EventQueue : public Queue<QueuedEvent> {
 public:
  void push(Event event) { Queue::push({std::move(event), {}}); }
  void push(SendProgress progress) { Queue::push({{}, std::move(progress)}); }
};

}  // namespace manta::train
