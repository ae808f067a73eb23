#include <gtest/gtest.h>

#include <vector>

#include "manta/io/core_choice_internal.h"

namespace manta {
namespace {

cpu_set_t cores(const std::vector<int>& numbers) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int number : numbers) CPU_SET(static_cast<size_t>(number), &set);
  return set;
}

std::vector<int> numbers(const cpu_set_t& set) {
  std::vector<int> numbers;
  for (int i = 0; i < CPU_SETSIZE; ++i) {
    if (CPU_ISSET(static_cast<size_t>(i), &set)) numbers.push_back(i);
  }
  return numbers;
}

std::vector<int> allowed() {
  cpu_set_t set;
  EXPECT_EQ(::sched_getaffinity(0, sizeof(set), &set), 0);
  return numbers(set);
}

// Each case: the steps of the group at which a rank waits for a rank on its core, then the steps at
// which it leaves.
TEST(CoreChoiceTest, ARankLeavesAtTheSecondStepInARow) {
  struct Case {
    std::vector<uint32_t> waits, leaves;
  };
  for (const auto& each : {
           Case{{7}, {}},
           Case{{7, 8}, {8}},
           Case{{7, 9}, {9}},
           Case{{7, 10}, {}},
           Case{{7, 10, 12}, {12}},
           Case{{7, 8, 9, 10}, {8, 10}},  // having left, it begins to count again
           Case{{7, 7, 7}, {}},           // for several ranks in one step
           Case{{7, 7, 8}, {8}},
           Case{{UINT32_MAX, 0}, {0}},
       }) {
    CoreChoice choice;
    std::vector<uint32_t> leaves;
    for (uint32_t step : each.waits) {
      if (choice.leave(step, cores({0, 1}), std::vector{0, 0})) leaves.push_back(step);
    }
    EXPECT_EQ(leaves, each.leaves);
  }
}

TEST(CoreChoiceTest, ItGoesWhereNoRankIs) {
  struct Case {
    std::vector<int> allowed, ranks, to;
  };
  for (const auto& each : {
           Case{{0, 1}, {0, 0}, {1}}, Case{{0, 1, 2, 5}, {0, 0, 2}, {1, 5}},
           Case{{0, 1}, {0, 0, 1}, {}},                    // no core is free
           Case{{3}, {3, 3}, {}},                          // this is the only one
           Case{{0, 1}, {0, 0, -1, 99999}, {1}},           // not yet known, or nonsense
           Case{{0, 1, 2, 3, 4, 5, 6, 7, 8}, {0, 0}, {}},  // Linux finds one
       }) {
    CoreChoice choice;
    choice.leave(1, cores(each.allowed), each.ranks);
    auto to = choice.leave(2, cores(each.allowed), each.ranks);
    EXPECT_EQ(to ? numbers(*to) : std::vector<int>(), each.to);
  }
}

TEST(CoreChoiceTest, AThreadMovesAndMayStillRunWhereItMight) {
  const std::vector<int> before = allowed();
  for (int core : before) {
    EXPECT_TRUE(move_to_core(cores({core})));
    EXPECT_EQ(allowed(), before);
  }
  EXPECT_FALSE(move_to_core(cores({})));
  EXPECT_EQ(allowed(), before);

  // As a user may ask with taskset.
  cpu_set_t last = cores({before.back()});
  ASSERT_EQ(::sched_setaffinity(0, sizeof(last), &last), 0);
  EXPECT_TRUE(move_to_core(cores({before.front()})));
  EXPECT_EQ(allowed(), std::vector<int>{before.back()});
  cpu_set_t all = cores(before);
  ASSERT_EQ(::sched_setaffinity(0, sizeof(all), &all), 0);
}

}  // namespace
}  // namespace manta
