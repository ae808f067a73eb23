#include <signal.h>
#include <sys/mman.h>

#include "manta/base/signal_stack_internal.h"

namespace manta {
namespace {

// A guard below the stack: a handler that needs more stack ends the process instead of writing over
// other memory.
constexpr size_t kGuard = 64 << 10;

}  // namespace

SignalStack::SignalStack() {
  stack_t stack{};
  if (::sigaltstack(nullptr, &stack) != 0 || !(stack.ss_flags & SS_DISABLE)) return;
  void* memory = ::mmap(nullptr, kGuard + kSize, PROT_NONE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) return;
  stack = {};
  stack.ss_sp = static_cast<char*>(memory) + kGuard;
  stack.ss_size = kSize;
  if (::mprotect(stack.ss_sp, kSize, PROT_READ | PROT_WRITE) == 0 &&
      ::sigaltstack(&stack, nullptr) == 0) {
    memory_ = memory;
  } else {
    ::munmap(memory, kGuard + kSize);
  }
}

SignalStack::~SignalStack() {
  if (!memory_) return;
  stack_t none{};
  none.ss_flags = SS_DISABLE;
  ::sigaltstack(&none, nullptr);
  ::munmap(memory_, kGuard + kSize);
}

}  // namespace manta
