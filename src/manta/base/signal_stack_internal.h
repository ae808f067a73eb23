#pragma once

#include <cstddef>

namespace manta {

/// A stack for this thread's signal handlers, for as long as this lives: an overflow of the
/// thread's own stack can be reported only from another stack (core's crash_handler.cc does that).
/// It costs 256 KiB of addresses, and no memory before a handler runs. A thread that already has
/// such a stack, from a sanitizer or from the user, keeps it. A thread that cannot get one runs
/// without it.
class SignalStack {
 public:
  /// Enough for the kernel's own frame (8 KB with all vector registers) and the unwinder.
  static constexpr size_t kSize = 256 << 10;

  SignalStack();
  ~SignalStack();
  SignalStack(const SignalStack&) = delete;

 private:
  void* memory_ = nullptr;  // null: it is not ours
};

}  // namespace manta
