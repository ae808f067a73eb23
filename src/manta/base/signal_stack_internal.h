#pragma once

#include <cstddef>

namespace manta {

/// A stack for this thread's signal handlers, for as long as this lives: what overflows the
/// thread's own stack can be reported only from another (crash_handler.cc of core does). It costs
/// 256 KiB of addresses, and no memory before a handler runs. A thread that has such a stack
/// already, of a sanitizer or of the user's, keeps it; one that cannot get it goes without.
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
