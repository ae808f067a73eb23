#pragma once

#include <cstdint>
#include <functional>

namespace manta {

/// Ctrl-C (SIGINT) and SIGTERM, for work that can stop in order. While any listener lives, the
/// first signal is told to all of them instead of ending the program; a second one does what it
/// would have done without them. When the last listener goes, the program's own handlers are back.
class InterruptListener {
 public:
  /// `on_interrupt` is called on a thread of its own, once; it must be short
  /// and make or destroy no listener. If there has been a signal already, and others that heard of
  /// it have not gone yet, it is called at once. Throws Error(kResources) if there can be no such
  /// thread.
  explicit InterruptListener(std::function<void()> on_interrupt);
  ~InterruptListener();  ///< It is not called any more.
  InterruptListener(const InterruptListener&) = delete;
  InterruptListener& operator=(const InterruptListener&) = delete;

 private:
  uint64_t number_ = 0;
};

}  // namespace manta
