#include <gmock/gmock.h>

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

TEST(Progress, MetricsAreSummedUp) {
  EXPECT_EQ(summarize({{"epoch", 2}, {"loss", 0.123456}, {"name", "a"}, {"list", {1, 2}}}),
            "epoch 2, loss 0.1235, name a");
  EXPECT_EQ(summarize({{"a", 1}, {"b", 2}}, 4), "a 1, ...");
  EXPECT_EQ(summarize(Json::object()), "");
}

TEST(Progress, TheLineSaysWhereTheRunIs) {
  Progress progress(false, false, 2);
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
