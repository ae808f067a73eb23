#include "manta/base/deadline.h"

#include <gtest/gtest.h>

#include "manta/base/names_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

TEST(DeadlineTest, NeverNeverPasses) {
  for (Deadline deadline : {Deadline(), Deadline::never(), Deadline::after(kForever)}) {
    EXPECT_TRUE(deadline.is_never());
    EXPECT_FALSE(deadline.passed());
    EXPECT_EQ(deadline.poll_milliseconds(), -1);
  }
}

TEST(DeadlineTest, WhatIsNotAheadHasPassed) {
  for (auto timeout : {0ns, -1ns, std::chrono::nanoseconds(-1h),
                       std::chrono::nanoseconds::min() / 2, std::chrono::nanoseconds::min()}) {
    SCOPED_TRACE(timeout.count());
    Deadline deadline = Deadline::after(timeout);
    EXPECT_FALSE(deadline.is_never());
    EXPECT_TRUE(deadline.passed());
    EXPECT_EQ(deadline.poll_milliseconds(), 0);
  }
}

TEST(DeadlineTest, HugeTimeoutsDoNotOverflow) {
  constexpr auto kYear = std::chrono::nanoseconds(24h * 365);
  for (auto timeout : {kYear, 100 * kYear, 290 * kYear, kForever - 1ns}) {
    SCOPED_TRACE(timeout.count());
    Deadline deadline = Deadline::after(timeout);
    EXPECT_FALSE(deadline.passed());
    EXPECT_GT(deadline.at(), Clock::now());
    EXPECT_EQ(deadline.poll_milliseconds(), deadline.is_never() ? -1 : INT_MAX);
  }
}

TEST(DeadlineTest, PollIsRoundedUpSoThatItDoesNotSpin) {
  Deadline deadline = Deadline::after(5ms);
  EXPECT_LE(deadline.poll_milliseconds(), 5);
  while (true) {
    int left = deadline.poll_milliseconds();
    if (deadline.passed()) break;
    ASSERT_GE(left, 1);  // there was time left when it was asked
  }
  EXPECT_EQ(deadline.poll_milliseconds(), 0);
}

TEST(DeadlineTest, PollGivesWholeMilliseconds) {
  int left = Deadline::after(10s).poll_milliseconds();
  EXPECT_LE(left, 10000);
  EXPECT_GT(left, 5000);
}

}  // namespace
}  // namespace manta
