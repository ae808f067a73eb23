#include <gtest/gtest.h>
#include <sched.h>

#include <thread>

#include "manta/base/batch_work_internal.h"

namespace manta {
namespace {

int policy() { return ::sched_getscheduler(0); }

TEST(BatchWork, IsInheritedAndCanBeUndone) {
  int own = -1, inherited = -1, undone = -1;
  std::thread([&] {
    become_batch_work();
    own = policy();
    std::thread([&] {
      inherited = policy();
      become_ordinary_work();
      undone = policy();
    }).join();
  }).join();
  EXPECT_EQ(own, SCHED_BATCH);
  EXPECT_EQ(inherited, SCHED_BATCH);
  EXPECT_EQ(undone, SCHED_OTHER);
  EXPECT_EQ(policy(), SCHED_OTHER);
}

}  // namespace
}  // namespace manta
