#include <gtest/gtest.h>

#include <thread>

#include "manta/base/queue_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

TEST(Queue, GivesWhatWasPushedInItsOrder) {
  Queue<std::unique_ptr<int>> queue;
  for (int i = 0; i < 3; ++i) queue.push(std::make_unique<int>(i));
  for (int i = 0; i < 3; ++i) EXPECT_EQ(**queue.pop(Deadline::never()), i);
  EXPECT_FALSE(queue.pop(Deadline::after(0s)));
  EXPECT_FALSE(queue.pop(Deadline::after(1ms)));
}

TEST(Queue, WakesAWaitingThread) {
  Queue<int> there, back;
  std::thread echo([&] {
    while (int item = *there.pop(Deadline::never())) back.push(item);
  });
  for (int i = 1; i <= 100; ++i) {
    there.push(i);
    EXPECT_EQ(back.pop(Deadline::after(50s)), i);
  }
  there.push(0);
  echo.join();
}

}  // namespace
}  // namespace manta
