#include <gtest/gtest.h>

#include <stdexcept>
#include <string>

#include "manta/io/wait_watch_internal.h"

namespace manta {
namespace {

TEST(WaitWatchTest, AScopeIsSeenForAsLongAsItLives) {
  WaitWatch watch;
  auto before = watch.read();
  EXPECT_EQ(before.wait.kind, Wait::kNone);
  {
    watch.set_step(12);
    WaitWatch::Scope scope(&watch, "allreduce");
    auto seen = watch.read();
    EXPECT_EQ(seen.wait.kind, Wait::kCollective);
    EXPECT_EQ(seen.wait.number, 0);
    EXPECT_STREQ(seen.wait.what, "allreduce");
    EXPECT_EQ(seen.wait.step, 12);
    EXPECT_NE(seen.version, before.version);
    EXPECT_EQ(watch.read().version, seen.version);
    WaitWatch::Scope inner(&watch, Wait{Wait::kRows, 3});  // the outer scope is the wait
    EXPECT_EQ(watch.read().version, seen.version);
  }
  EXPECT_EQ(watch.read().wait.kind, Wait::kNone);
  EXPECT_NE(watch.read().version, before.version);
  EXPECT_EQ(watch.collectives(), 1);
  WaitWatch::Scope nothing(nullptr, "allreduce");
}

TEST(WaitWatchTest, OneThatIsLeftByAnExceptionIsRemembered) {
  WaitWatch watch;
  { WaitWatch::Scope scope(&watch, Wait{Wait::kReport, 7}); }
  EXPECT_EQ(watch.thrown_from().kind, Wait::kNone);
  try {
    WaitWatch::Scope scope(&watch, Wait{Wait::kReport, 7});
    throw std::runtime_error("x");
  } catch (const std::runtime_error&) {
  }
  EXPECT_EQ(watch.thrown_from().kind, Wait::kReport);
  EXPECT_EQ(watch.thrown_from().number, 7);
  EXPECT_EQ(watch.read().wait.kind, Wait::kNone);
  // The loop has caught the exception and goes on: a later failure is in another place.
  { WaitWatch::Scope scope(&watch, "barrier"); }
  EXPECT_EQ(watch.thrown_from().kind, Wait::kNone);
}

TEST(WaitWatchTest, TheWaitOfALoopWithSeveralThreadsIsUnknown) {
  WaitWatch watch;
  WaitWatch::Scope scope(&watch, "barrier");
  EXPECT_EQ(watch.read().wait.kind, Wait::kCollective);
  std::thread([&] { WaitWatch::Scope other(&watch, Wait{Wait::kRows, 0}); }).join();
  EXPECT_EQ(watch.read().wait.kind, Wait::kNone);
  EXPECT_TRUE(watch.others_take_part());
}

TEST(WaitWatchTest, AReaderNeverSeesHalfOfTwo) {
  WaitWatch watch;
  std::atomic<bool> over{false};
  std::atomic<int64_t> mixed{0}, seen{0};
  std::thread reader([&] {
    while (!over) {
      auto now = watch.read().wait;
      if (now.kind == Wait::kNone) continue;
      ++seen;
      mixed += now.number != now.step || std::to_string(now.number % 2) != now.what;
    }
  });
  for (int64_t i = 0; i < 1'000'000; ++i) {
    WaitWatch::Scope scope(&watch, Wait{Wait::kRows, i, i % 2 == 0 ? "0" : "1", i});
  }
  WaitWatch::Scope last(&watch, Wait{Wait::kRows, 0, "0", 0});
  while (seen == 0) std::this_thread::yield();
  over = true;
  reader.join();
  EXPECT_EQ(mixed, 0);
}

}  // namespace
}  // namespace manta
