#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "manta/torch/shard_plan_internal.h"

namespace manta::train::detail {
namespace {

TEST(ShardPlan, EveryNumberHasOneWorker) {
  struct {
    int64_t numbers;
    int world;
    int64_t capacity;
    std::vector<ShardRange> expected;
  } cases[] = {
      {8, 2, 4, {{0, 4}, {4, 8}}},
      {7, 2, 4, {{0, 4}, {4, 7}}},
      {9, 4, 3, {{0, 3}, {3, 6}, {6, 9}, {9, 9}}},
      {5, 4, 2, {{0, 2}, {2, 4}, {4, 5}, {5, 5}}},
      {1, 3, 1, {{0, 1}, {1, 1}, {1, 1}}},
      {0, 2, 1, {{0, 0}, {0, 0}}},
      {6, 1, 6, {{0, 6}}},
  };
  for (const auto& one : cases) {
    EXPECT_EQ(shard_capacity(one.numbers, one.world), one.capacity) << one.numbers;
    for (int rank = 0; rank < one.world; ++rank) {
      EXPECT_EQ(shard_of(one.numbers, rank, one.world), one.expected[static_cast<size_t>(rank)])
          << one.numbers << " numbers, rank " << rank;
    }
  }
}

TEST(ShardPlan, CopiesFillARange) {
  struct {
    std::vector<ShardRange> parts;
    ShardRange range;
    std::vector<ShardCopy> expected;
  } cases[] = {
      {{{0, 10}}, {3, 7}, {{0, 3, 0, 4}}},
      {{{0, 4}, {4, 8}}, {2, 6}, {{0, 2, 0, 2}, {1, 0, 2, 2}}},
      {{{4, 8}, {0, 4}}, {2, 6}, {{0, 0, 2, 2}, {1, 2, 0, 2}}},
      {{{0, 4}, {6, 8}}, {2, 8}, {{0, 2, 0, 2}, {1, 0, 4, 2}}},  // 4 and 5 are nowhere
      {{{0, 4}}, {4, 4}, {}},
      {{}, {0, 3}, {}},
  };
  for (const auto& one : cases) EXPECT_EQ(plan_copies(one.parts, one.range), one.expected);
}

TEST(ShardPlan, AnyNumberOfWorkersTakesOverFromAnyOther) {
  for (int64_t numbers : {1, 5, 12, 97}) {
    std::vector<int64_t> values(static_cast<size_t>(numbers));
    std::iota(values.begin(), values.end(), 0);
    for (int before : {1, 2, 3, 8}) {
      for (int after : {1, 2, 5, 8}) {
        std::vector<ShardRange> parts;
        for (int rank = 0; rank < before; ++rank) parts.push_back(shard_of(numbers, rank, before));
        for (int rank = 0; rank < after; ++rank) {
          ShardRange range = shard_of(numbers, rank, after);
          std::vector<int64_t> got(static_cast<size_t>(range.size()), -1);
          for (const ShardCopy& copy : plan_copies(parts, range)) {
            auto from = values.begin() + parts[copy.part].begin + copy.from;
            std::copy(from, from + copy.count, got.begin() + copy.to);
          }
          EXPECT_TRUE(std::equal(got.begin(), got.end(), values.begin() + range.begin))
              << numbers << " from " << before << " to " << after;
        }
      }
    }
  }
}

}  // namespace
}  // namespace manta::train::detail
