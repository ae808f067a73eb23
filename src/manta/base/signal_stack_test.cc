#include <gtest/gtest.h>
#include <signal.h>

#include <thread>
#include <vector>

#include "manta/base/signal_stack_internal.h"
#include "manta/base/start_thread_internal.h"

namespace manta {
namespace {

stack_t current_stack() {
  stack_t stack{};
  ::sigaltstack(nullptr, &stack);
  return stack;
}

TEST(SignalStackTest, AThreadOfOursHasOne) {
  stack_t inside{};
  start_thread("a test's thread", [&] { inside = current_stack(); }).join();
  EXPECT_EQ(inside.ss_flags & SS_DISABLE, 0);
  EXPECT_GE(inside.ss_size, size_t{MINSIGSTKSZ});
}

TEST(SignalStackTest, GoesWithItsOwnerAndLeavesThoseOfOthersAlone) {
  std::thread([] {
    if (!(current_stack().ss_flags & SS_DISABLE)) return;  // a sanitizer has one for each thread
    {
      SignalStack outer;
      void* ours = current_stack().ss_sp;
      {
        SignalStack inner;
        EXPECT_EQ(current_stack().ss_sp, ours);
      }
      EXPECT_EQ(current_stack().ss_sp, ours);
    }
    EXPECT_NE(current_stack().ss_flags & SS_DISABLE, 0);
  }).join();
}

}  // namespace
}  // namespace manta
