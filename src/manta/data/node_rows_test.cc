// Compares the rows that a node's ranks take with the steps that workers take.

#include <gtest/gtest.h>

#include "manta/data/node_rows_internal.h"

namespace manta::data {
namespace {

// The rank that takes each row (-1 for none), by the functions that workers use.
std::vector<int> takers(const StepRule& rule, int64_t from, int64_t total) {
  std::vector<int> by_row(static_cast<size_t>(total), -1);
  int64_t row = from;
  while (row < total) {
    auto step = next_step(rule, row, total, true, "train");
    if (!step) break;
    for (int rank = 0; rank < rule.world_size; ++rank) {
      Rows slice = slice_of(*step, rank, rule.world_size);
      for (int64_t i = 0; i < slice.rows; ++i)
        by_row[static_cast<size_t>(slice.first_row + i)] = rank;
    }
    row = step->first_row + step->rows;
  }
  return by_row;
}

TEST(NodeRowsTest, AreThoseThatTheWorkersTake) {
  int cases = 0;
  for (int world : {1, 2, 3, 5}) {
    for (int64_t batch : {5, 7, 16}) {
      for (bool drop_last : {false, true}) {
        StepRule rule =
            make_step_rule(1, std::max<int64_t>(batch, 2 * world - 1), drop_last, world, "train");
        for (int64_t from : {0, 3, 16}) {
          for (int64_t total = from + rule.global_batch; total < from + 60; ++total) {
            auto by_row = takers(rule, from, total);
            for (int node = 0; node < 2; ++node) {
              std::vector<int32_t> ranks;
              for (int rank = node; rank < world; rank += 2) ranks.push_back(rank);
              NodeRows rows(rule, from, ranks);
              std::vector<int64_t> expected, found;
              for (int64_t row = 0; row < total; ++row) {
                int rank = by_row[static_cast<size_t>(row)];
                if (rank >= 0 && rank % 2 == node) expected.push_back(row);
              }
              for (int64_t begin : {int64_t{0}, from + 1, from + rule.global_batch}) {
                found.clear();
                for (const Rows& range : rows.in(begin, total, total)) {
                  for (int64_t i = 0; i < range.rows; ++i) found.push_back(range.first_row + i);
                }
                std::vector<int64_t> wanted;
                for (int64_t row : expected) {
                  if (row >= begin) wanted.push_back(row);
                }
                ASSERT_EQ(found, wanted);
                ASSERT_EQ(rows.count(begin, total, total), static_cast<int64_t>(wanted.size()));
              }
              // What is decided before the end is known does not change later.
              int64_t decided = rows.decided(total);
              ASSERT_LE(decided, total);
              ASSERT_EQ(rows.in(from, decided, NodeRows::kUnknown), rows.in(from, decided, total));
              for (int64_t row = from; row <= decided; ++row)
                ASSERT_EQ(rows.count(from, row, NodeRows::kUnknown), rows.count(from, row, total));
              ++cases;
            }
          }
        }
      }
    }
  }
  EXPECT_GT(cases, 1000);
}

// A worker takes a step once it knows of `rows_to_look_at` rows: by then its rows are decided.
TEST(NodeRowsTest, AStepIsDecidedWhenAWorkerMayTakeIt) {
  StepRule rule = make_step_rule(1, 10, false, 2, "train");
  NodeRows rows(rule, 20, {0});
  EXPECT_EQ(rows.decided(20), 20);
  EXPECT_EQ(rows.decided(20 + rows_to_look_at(rule) - 1), 20);
  EXPECT_EQ(rows.decided(20 + rows_to_look_at(rule)), 30);
  EXPECT_EQ(rows.decided(20 + rows_to_look_at(rule) + 10), 40);
}

TEST(NodeRowsTest, ARangeEndsWhereItHasEnough) {
  NodeRows rows(make_step_rule(1, 10, false, 2, "train"), 0, {1});  // rows 5 to 9 of each ten
  EXPECT_EQ(rows.end_of(0, 100, NodeRows::kUnknown, 5), 15);
  EXPECT_EQ(rows.end_of(0, 12, NodeRows::kUnknown, 5), 12);
  EXPECT_EQ(rows.end_of(5, 100, NodeRows::kUnknown, 1), 6);
  EXPECT_EQ(rows.end_of(0, 100, NodeRows::kUnknown, 1000), 100);
}

}  // namespace
}  // namespace manta::data
