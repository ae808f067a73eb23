#pragma once

#include <cstdint>
#include <functional>

namespace manta {

/// Ctrl-C (SIGINT) and SIGTERM, for work that can stop in order. While any listener lives, the
/// first signal goes to all of them instead of ending the program; a second signal does what it
/// would have done without listeners. When the last listener goes, the program's own handlers are
/// restored.
class InterruptListener {
 public:
  /// `on_interrupt` is called on a thread of its own, once; it must be short and must not make or
  /// destroy a listener. If there has been a signal already, and listeners that were told of it
  /// still live, it is called at once. Throws Error(kResources) if that thread cannot be started.
  explicit InterruptListener(std::function<void()> on_interrupt);
  ~InterruptListener();  ///< It is not called any more.
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

 private:
  uint64_t number_ = 0;
};

}  // namespace manta
