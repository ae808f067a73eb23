#include <gmock/gmock.h>

#include "manta/core/supply_retries_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::AllOf;
using testing::HasSubstr;

TEST(SupplyRetriesTest, PausesDoubleUpToTenSecondsAndNeverEnd) {
  SupplyRetries retries;
  Clock::time_point now{};
  EXPECT_TRUE(retries.may_ask("n1", now));
  const std::vector<std::chrono::milliseconds> pauses = {500ms,  1000ms,   2000ms,  4000ms,
                                                         8000ms, 10'000ms, 10'000ms};
  for (size_t i = 0; i < 1000; ++i) {
    auto pause = pauses[std::min(i, pauses.size() - 1)];
    retries.failed("n1", "why", now);
    EXPECT_EQ(retries.failures("n1"), static_cast<int>(i) + 1);
    EXPECT_FALSE(retries.may_ask("n1", now + pause - 1ms)) << i;
    EXPECT_TRUE(retries.may_ask("n1", now + pause)) << i;
    now += pause;
  }
}

TEST(SupplyRetriesTest, AHostThatIsAwayDelaysNoOther) {
  SupplyRetries retries;
  Clock::time_point now{};
  for (int i = 0; i < 20; ++i) retries.failed("n1", "no route", now);
  EXPECT_TRUE(retries.may_ask("n2", now));
  EXPECT_TRUE(retries.may_ask("", now));
  EXPECT_EQ(retries.failures("n2"), 0);
}

TEST(SupplyRetriesTest, OneThatCameIsForgotten) {
  SupplyRetries retries;
  Clock::time_point now{};
  for (int i = 0; i < 20; ++i) retries.failed("n1", "no route", now);
  retries.came("n1");
  EXPECT_TRUE(retries.may_ask("n1", now));
  EXPECT_EQ(retries.describe(), "");
  retries.failed("n1", "no route", now);
  EXPECT_TRUE(retries.may_ask("n1", now + SupplyRetries::kFirstPause));
}

TEST(SupplyRetriesTest, SaysWhatFailsAndThatItGoesOn) {
  SupplyRetries retries;
  EXPECT_EQ(retries.describe(), "");
  for (int i = 0; i < 3; ++i) {
    retries.failed("n1", str("exited with code 255. It said:\nno route, ", i), {});
  }
  retries.failed("", std::string(5000, 'x'), {});
  std::string text = retries.describe();
  EXPECT_THAT(text, AllOf(HasSubstr("'n1' was asked for 3 times and did not come (the last time: "
                                    "exited with code 255. It said: no route, 2)"),
                          HasSubstr("a new node was asked for 1 time and did not come"),
                          HasSubstr("is asked for again, at least every 10 s")));
  EXPECT_LT(text.size(), 1000u);
}

TEST(SupplyRetriesTest, ALogOfDaysStaysShort) {
  SupplyRetries retries;
  int told = 0;
  for (int i = 0; i < 10'000; ++i) {
    retries.failed("n1", "no route", {});
    told += retries.is_worth_telling("n1");
  }
  EXPECT_EQ(told, 14);
}

}  // namespace
}  // namespace manta
