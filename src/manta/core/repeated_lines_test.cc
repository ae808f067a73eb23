#include <gmock/gmock.h>

#include <algorithm>

#include "manta/base/names_internal.h"
#include "manta/core/repeated_lines_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

class RepeatedLinesTest : public testing::Test {
 protected:
  bool is_new(const std::string& worker, std::string_view line) {
    return lines_.is_new(worker, line, now_);
  }
  std::string counts() { return lines_.take_counts(now_); }

  RepeatedLines lines_;
  Clock::time_point now_ = Clock::now();
};

TEST_F(RepeatedLinesTest, TheSameFromOtherWorkersIsShownOnceAndCounted) {
  EXPECT_TRUE(is_new("rank-0", "a warning"));
  for (int i = 1; i <= 12; ++i) EXPECT_FALSE(is_new("rank-" + std::to_string(i), "a warning"));
  EXPECT_EQ(counts(), "");
  now_ += RepeatedLines::kWindow;
  EXPECT_EQ(counts(), "(rank-12) a warning [repeated 12x across workers]\n");
  EXPECT_EQ(counts(), "");
}

TEST_F(RepeatedLinesTest, OneWorkerMayRepeatItselfAFewTimes) {
  for (int i = 0; i < RepeatedLines::kFromOne; ++i) EXPECT_TRUE(is_new("rank-0", "0 0 1"));
  for (int i = 0; i < 5; ++i) EXPECT_FALSE(is_new("rank-0", "0 0 1"));
  now_ += RepeatedLines::kWindow;
  EXPECT_EQ(counts(), "(rank-0) 0 0 1 [repeated 5x]\n");
}

TEST_F(RepeatedLinesTest, AnEndlessRepetitionIsOneCountAWindow) {
  int shown = 0;
  std::string counted;
  for (int i = 0; i < 500; ++i, now_ += 10ms) {
    shown += is_new("rank-0", "again");
    counted += counts();
  }
  EXPECT_EQ(shown, RepeatedLines::kFromOne);
  EXPECT_EQ(std::count(counted.begin(), counted.end(), '\n'), 4);
  EXPECT_NE(lines_.take_counts(now_, true), "");
}

TEST_F(RepeatedLinesTest, OtherTextEmptyLinesAndLongOnesAreAlwaysShown) {
  std::string long_line(5000, 'x');
  for (int i = 0; i < 10; ++i) {
    EXPECT_TRUE(is_new("rank-1", "step " + std::to_string(i)));
    EXPECT_TRUE(is_new("rank-" + std::to_string(i), ""));
    EXPECT_TRUE(is_new("rank-" + std::to_string(i), "  "));
    EXPECT_TRUE(is_new("rank-" + std::to_string(i), long_line));
  }
  now_ += 10s;
  EXPECT_EQ(counts(), "");
}

TEST_F(RepeatedLinesTest, AfterAQuietWindowALineIsNewAgain) {
  EXPECT_TRUE(is_new("rank-0", "epoch done"));
  now_ += RepeatedLines::kWindow;
  EXPECT_EQ(counts(), "");
  EXPECT_FALSE(lines_.waits());
  EXPECT_TRUE(is_new("rank-1", "epoch done"));
}

TEST_F(RepeatedLinesTest, AtTheEndAllCountsAreTaken) {
  is_new("rank-0", "a");
  is_new("rank-1", "a");
  EXPECT_EQ(lines_.take_counts(now_, true), "(rank-1) a [repeated 1x across workers]\n");
}

TEST_F(RepeatedLinesTest, ManyDifferentLinesAreForgottenAndNotKept) {
  for (int i = 0; i < 50'000; ++i) EXPECT_TRUE(is_new("rank-0", std::to_string(i)));
  now_ += RepeatedLines::kWindow;
  EXPECT_EQ(counts(), "");
  EXPECT_FALSE(lines_.waits());
}

}  // namespace
}  // namespace manta
