#include <gmock/gmock.h>

#include <cmath>
#include <limits>

#include "manta/train/progress_internal.h"

namespace manta::train {
namespace {

TEST(Progress, NumbersAreShort) {
  EXPECT_EQ(short_count(999), "999");
  EXPECT_EQ(short_count(12345), "12.3 k");
  EXPECT_EQ(short_count(1.25e6), "1.25 M");
  EXPECT_EQ(short_time(1.25), "1.2 s");
  EXPECT_EQ(short_time(200), "3 min 20 s");
  EXPECT_EQ(short_time(7500), "2 h 5 min");
}

TEST(Progress, NumbersThatTellNothing) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct {
    double seconds;
    const char* text;
  } times[] = {{0, "0.0 s"},
               {59.94, "59.9 s"},
               {59.97, "1 min 0 s"},
               {3599.7, "1 h 0 min"},
               {-1, "?"},
               {nan, "?"},
               {-inf, "?"},
               {inf, "more than a year"},
               {1e300, "more than a year"},
               {200'000, "2 d 7 h"},
               {172'799, "47 h 59 min"}};
  for (const auto& one : times) EXPECT_EQ(short_time(one.seconds), one.text) << one.seconds;
  struct {
    double count;
    const char* text;
  } counts[] = {{0, "0"},         {-5, "?"}, {nan, "?"}, {inf, "?"}, {2.5e12, "2500.00 G"},
                {1e20, "1.0e+20"}};
  for (const auto& one : counts) EXPECT_EQ(short_count(one.count), one.text) << one.count;
  struct {
    int64_t rows, total;
    double rate;
    bool known;
  } left[] = {{0, 100, 10, true},
              {100, 100, 10, false},
              {200, 100, 10, false},
              {0, 100, 0, false},
              {0, 100, -1, false},
              {0, 100, nan, false},
              {0, 100, 1e-300, false},
              {-5, 100, 10, false},
              {0, -1, 10, false},
              {0, INT64_MAX, 1, false},
              {INT64_MIN, INT64_MAX, 1, false},
              {0, INT64_MAX, 1e18, true},
              {0, 100, inf, true}};
  for (const auto& one : left)
    EXPECT_EQ(seconds_left(one.rows, one.total, one.rate).has_value(), one.known)
        << one.rows << " " << one.total << " " << one.rate;
}

// A run that stands still: its rate falls with every message, to 1e-300 and less.
TEST(Progress, ARunThatStandsStillHasNoEnd) {
  Progress progress("run", false, false, 1);
  SendProgress news{.dataset = "train", .steps = 1, .rows = 1, .epoch_rows = 1};
  news.epoch_total = 1'000'000'000;
  progress.update(news);
  news.rows = 2;
  progress.update(news);
  for (int i = 0; i < 5000; ++i) {
    progress.update(news);
    ASSERT_THAT(progress.line(), testing::Not(testing::HasSubstr("in -")));
    ASSERT_THAT(progress.line(), testing::Not(testing::HasSubstr("nan")));
  }
  EXPECT_THAT(progress.line(), testing::Not(testing::HasSubstr("epoch ends")));
}

TEST(Progress, MetricsAreSummedUp) {
  EXPECT_EQ(summarize({{"epoch", 2}, {"loss", 0.123456}, {"name", "a"}, {"list", {1, 2}}}),
            "epoch 2, loss 0.1235, name a");
  EXPECT_EQ(summarize({{"a", 1}, {"b", 2}}, 4), "a 1, ...");
  EXPECT_EQ(summarize(Json::object()), "");
}

TEST(Progress, TheLineSaysWhereTheRunIs) {
  Progress progress("run", false, false, 2);
  EXPECT_EQ(progress.line(), "");
  progress.expect("train", 4000);
  SendProgress news{.dataset = "train", .steps = 10, .rows = 500, .epoch_rows = 1000};
  progress.update(news);
  EXPECT_EQ(progress.line(), "epoch 0, step 10 (25%)");
  news.steps = 20;
  news.rows = 1000;
  news.epoch_rows = 2000;
  progress.update(news);
  progress.report(0, {{"loss", 0.5}}, "");
  EXPECT_THAT(progress.line(), testing::AllOf(testing::HasSubstr("step 20 (50%) | "),
                                              testing::HasSubstr("rows/s | data wait 0%"),
                                              testing::HasSubstr("epoch ends in"),
                                              testing::EndsWith(" | loss 0.5")));
  news.epoch_total = 2000;  // known now
  progress.update(news);
  EXPECT_THAT(progress.line(), testing::HasSubstr("(100%)"));
}

}  // namespace
}  // namespace manta::train
