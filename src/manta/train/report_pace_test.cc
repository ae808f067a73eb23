#include <gtest/gtest.h>

#include "manta/train/report_pace_internal.h"

namespace manta::train {
namespace {

using namespace std::chrono_literals;

// Adds reports at that interval, and returns when the last was made.
Clock::time_point reports(ReportPace& pace, Clock::time_point now, int count,
                          std::chrono::nanoseconds interval) {
  for (int i = 0; i < count; ++i) pace.add(now += interval);
  return now;
}

TEST(ReportPaceTest, SleepsUntilSomethingComesBeforeTheFirstReports) {
  ReportPace pace;
  Clock::time_point now{1h};
  EXPECT_EQ(pace.nap(now), 0us);
  pace.add(now);
  EXPECT_EQ(pace.nap(now), 0us);
}

TEST(ReportPaceTest, LooksFourTimesAReport) {
  ReportPace pace;
  auto now = reports(pace, Clock::time_point{1h}, 100, 1ms);
  EXPECT_GE(pace.nap(now), 249us);
  EXPECT_LE(pace.nap(now), 251us);
}

TEST(ReportPaceTest, NeverNapsLong) {
  ReportPace pace;
  auto now = reports(pace, Clock::time_point{1h}, 100, 4ms);
  EXPECT_EQ(pace.nap(now), ReportPace::kLongestNap);
}

TEST(ReportPaceTest, IsWokenByReportsThatAreRareOrFollowAtOnce) {
  for (auto interval : {10us, 300us, 20'000us}) {
    ReportPace pace;
    auto now = reports(pace, Clock::time_point{1h}, 100, interval);
    EXPECT_EQ(pace.nap(now), 0us) << interval.count();
  }
}

TEST(ReportPaceTest, IsWokenAgainOnceTheReportsStop) {
  ReportPace pace;
  auto now = reports(pace, Clock::time_point{1h}, 100, 1ms);
  EXPECT_GT(pace.nap(now + 3ms), 0us);
  EXPECT_EQ(pace.nap(now + 5ms), 0us);
}

TEST(ReportPaceTest, FollowsALoopThatGetsFaster) {
  ReportPace pace;
  auto now = reports(pace, Clock::time_point{1h}, 100, 1s);
  EXPECT_EQ(pace.nap(now), 0us);
  now = reports(pace, now, 100, 1ms);
  EXPECT_GT(pace.nap(now), 0us);
}

}  // namespace
}  // namespace manta::train
