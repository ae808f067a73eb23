#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "manta/train/standstill_internal.h"

namespace manta::train {
namespace {

using testing::HasSubstr;

// Short forms of what a rank reports.
RankView running() { return {}; }
RankView finished(int64_t collectives = 0, int64_t reports = 0) {
  return {{.collectives = collectives}, reports, true};
}
RankView returned(int64_t report, int64_t reports, int64_t collectives = 0) {
  return {{.kind = Wait::kReturned, .number = report, .collectives = collectives}, reports, false};
}
RankView in_collective(int64_t number, int64_t reports = 0) {
  return {{.kind = Wait::kCollective,
           .number = number,
           .what = "in an allreduce (of step 12)",
           .collectives = number + 1,
           .passes = 1},
          reports,
          false};
}
RankView in_report(int64_t report, int64_t reports, int64_t collectives = 0, int64_t passes = 0) {
  return {{.kind = Wait::kReport,
           .number = report,
           .what = "in train::report for report " + std::to_string(report),
           .collectives = collectives,
           .passes = passes},
          reports,
          false};
}
RankView in_rows(int64_t pass, int64_t collectives = 0, int64_t taken = 0) {
  return {{.kind = Wait::kRows,
           .number = pass,
           .what = "for rows of epoch 0 of data set 'train'",
           .collectives = collectives,
           .passes = pass + 1,
           .taken = {{pass, taken}}},
          0,
          false};
}
RankView with_taken(RankView view, int64_t pass, int64_t taken) {
  view.activity.taken = {{pass, taken}};
  return view;
}

TEST(StandstillTest, Table) {
  const std::string same = "; every rank must take the same steps";
  struct {
    const char* name;
    std::vector<RankView> ranks;
    std::string expected;  // "" if they may go on
  } cases[] = {
      // No rank has diverged.
      {"all run", {running(), running()}, ""},
      {"one waits for one that runs", {in_collective(4), running()}, ""},
      {"both in the same", {in_collective(4), in_collective(4)}, ""},
      {"one behind, in a collective that the other has joined",
       {in_collective(4), in_collective(3)},
       ""},
      {"the driver commits", {in_report(2, 3), in_report(2, 3)}, ""},
      {"a report that one who runs has yet to make", {in_report(2, 3), running()}, ""},
      {"a report that the other has made", {in_report(2, 3, 4), in_collective(4, 3)}, ""},
      {"the reader is slow", {in_rows(0), in_rows(0)}, ""},
      {"the reader is slow for one", {in_rows(0, 5, 7), with_taken(in_collective(5), 0, 8)}, ""},
      {"the reader is slow, both have taken as much",
       {in_rows(0, 5, 8), with_taken(in_collective(5), 0, 8)},
       ""},
      {"more rows than the other, who has left that pass",
       {in_rows(0, 5, 9), in_collective(5)},
       ""},
      {"the reader is slow, and each has skipped another batch",
       {in_rows(0, 5, 7), with_taken(in_collective(5), 0, 6)},
       ""},
      {"the reader is slow for one that takes its batches before it meets the others",
       {in_rows(0, 0, 5), with_taken(in_collective(0), 0, 0)},
       ""},
      {"the reader does without those who have finished", {in_rows(1), finished()}, ""},
      {"who has returned will soon have finished", {in_rows(1), returned(-1, 0)}, ""},
      {"all have finished", {finished(5), finished(5)}, ""},
      {"two that wait for one that runs, over a third",
       {in_collective(4, 2), in_report(1, 2, 3), running()},
       ""},
      {"one finished what the other still waits in", {in_collective(4), finished(5)}, ""},

      // A rank has diverged.
      {"returned early",
       {finished(4), in_collective(4)},
       "1: it waits in an allreduce (of step 12) that rank 0 never joins: rank 0 has "
       "returned from the loop" +
           same},
      {"returned, and waits for a report",
       {returned(2, 3, 4), in_collective(4, 2)},
       "1: it waits in an allreduce (of step 12) that rank 0 never joins: rank 0 has "
       "returned from the loop" +
           same},
      {"in report",
       {in_report(2, 3, 4), in_collective(4, 2)},
       "1: it waits in an allreduce (of step 12) that rank 0 never joins: rank 0 waits "
       "in "
       "train::report for report 2, which rank 1 has not made" +
           same},
      {"in report, while others wait for a third, which runs",
       {in_report(2, 3, 4), in_collective(4, 2), running()},
       "1: it waits in an allreduce (of step 12) that rank 0 never joins: rank 0 waits "
       "in "
       "train::report for report 2, which ranks 1, 2 have not made" +
           same},
      {"two of three have returned",
       {finished(4), in_collective(4), finished(3)},
       "1: it waits in an allreduce (of step 12) that ranks 0, 2 never join: rank 0 has "
       "returned from the loop, rank 2 has returned from the loop" +
           same},
      {"over three ranks",
       {in_report(0, 1, 2), in_rows(1, 2), in_collective(2)},
       "2: it waits in an allreduce (of step 12) that ranks 0, 1 never join: rank 0 "
       "waits "
       "in train::report for report 0, which ranks 1, 2 have not made, rank 1 waits for rows of "
       "epoch 0 of data set 'train'" +
           same},
      {"a data set that one never opens",
       {in_rows(1), in_report(0, 1, 0, 1)},
       "0: it waits for rows of epoch 0 of data set 'train', which rank 1 never asks for: rank 1 "
       "waits in train::report for report 0, which rank 0 has not made" +
           same},
      {"a data set that one who has returned never opens",
       {in_rows(1), returned(0, 1)},
       "0: it waits for rows of epoch 0 of data set 'train', which rank 1 never asks for: rank 1 "
       "has returned from the loop" +
           same},
      {"a report that one who has returned never made",
       {in_report(1, 2), finished(0, 1)},
       "0: it waits in train::report for report 1, which rank 1 never makes: rank 1 has returned "
       "from the loop" +
           same},
  };
  for (const auto& one : cases) {
    SCOPED_TRACE(one.name);
    auto found = find_standstill(one.ranks);
    EXPECT_EQ(found ? std::to_string(found->rank) + ": " + found->message : "", one.expected);
  }
}

// The reader may be slow, or have no room: this only explains a wait that was given up.
TEST(StandstillTest, ManyBatchesSkippedAreLikelyTheReason) {
  std::vector<RankView> ranks{in_rows(0, 3, 900), with_taken(in_collective(3), 0, 4)};
  EXPECT_FALSE(find_standstill(ranks));
  auto found = find_standstill(ranks, Evidence::kLikely);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->rank, 1);
  EXPECT_EQ(found->message,
            "it waits in an allreduce (of step 12) that rank 0 never joins: rank 0 waits "
            "for rows of epoch 0 of data set 'train'; every rank must take the same steps");
  EXPECT_FALSE(
      find_standstill({in_rows(0, 3, 4), with_taken(in_collective(3), 0, 4)}, Evidence::kLikely));
}

}  // namespace
}  // namespace manta::train
