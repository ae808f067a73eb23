#include <gtest/gtest.h>

#include <thread>

#include "manta/io/eager_wait_internal.h"

namespace manta {
namespace {

using std::chrono::microseconds;

void make_short(EagerWait& wait) {
  while (!wait.is_short()) wait.add(microseconds(100));
}

TEST(EagerWait, LooksOnlyWhereWaitsAreUsuallyShort) {
  EagerWait wait;
  EXPECT_FALSE(wait.is_short()) << "nothing is known yet";
  int waits = 0;
  for (; !wait.is_short(); ++waits) wait.add(microseconds(100));
  EXPECT_GT(waits, 1);
  EXPECT_LT(waits, 10);
  for (int i = 0; i < 20; ++i) wait.add(microseconds(100));
  wait.add(std::chrono::hours(1));
  EXPECT_TRUE(wait.is_short()) << "one long wait, however long, is no habit";
  for (int i = 0; i < 3; ++i) wait.add(std::chrono::milliseconds(1));
  EXPECT_FALSE(wait.is_short());
  for (int i = 0; i < 100; ++i) wait.add(EagerWait::kMostSpin);
  EXPECT_FALSE(wait.is_short()) << "it would look for all of the time, in vain";
}

TEST(EagerWait, DoesNotLookWhereWaitsAreLong) {
  EagerWait wait;
  int looks = 0;
  EXPECT_FALSE(wait.look([&] { return ++looks > 0; }));
  EXPECT_EQ(looks, 0);
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "it never looks on one processor";
  // On a machine that is busy with something else, it may not look for long: try again.
  bool found = false;
  for (int i = 0; i < 10'000 && !found; ++i) {
    EagerWait fresh;
    make_short(fresh);
    looks = 0;
    found = fresh.look([&] { return ++looks == 3; });
  }
  EXPECT_TRUE(found);
  make_short(wait);
  EXPECT_FALSE(wait.look([] { return false; })) << "it gives up";
}

// A look that takes long: that is how it sees that other threads had the processor.
bool look_while_others_run(EagerWait& wait, bool found) {
  return wait.look([&] {
    std::this_thread::sleep_for(2 * EagerWait::kOthersRan);
    return found;
  });
}

void wait_for_rest(EagerWait& wait) {
  while (!wait.look([] { return true; })) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

TEST(EagerWait, WhatComesWhileOthersRunIsTakenAndStillShowsThatTheyDo) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "it never looks on one processor";
  EagerWait wait;
  make_short(wait);
  auto begin = Clock::now();
  EXPECT_TRUE(look_while_others_run(wait, true));
  wait_for_rest(wait);
  EXPECT_GE(Clock::now() - begin, EagerWait::kLeastRest);
}

TEST(EagerWait, LooksForTheLeastTimeEvenWhereWaitsAreLong) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "it never looks on one processor";
  EagerWait wait(microseconds(50));
  EXPECT_TRUE(wait.look([] { return true; }));
}

TEST(EagerWait, RestsLongerWhereOthersNeedTheProcessorAgainAndAgain) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "it never looks on one processor";
  EagerWait wait;
  make_short(wait);
  auto begin = Clock::now();
  auto rests = EagerWait::kLeastRest * 0;
  auto rest = EagerWait::kLeastRest;
  for (int i = 0; i < 4; ++i, rest *= 2) {
    // It may be resting already, if another process needs the processor, too.
    EXPECT_FALSE(look_while_others_run(wait, false));
    wait_for_rest(wait);
    rests += rest;
  }
  EXPECT_GE(Clock::now() - begin, rests);
}

}  // namespace
}  // namespace manta
