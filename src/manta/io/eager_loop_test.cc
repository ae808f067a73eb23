#include <gtest/gtest.h>

#include <boost/asio/executor_work_guard.hpp>
#include <ctime>
#include <thread>

#include "manta/base/eventually_internal.h"
#include "manta/io/eager_loop_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

TEST(EagerLoop, ReturnsWhenThereIsNothingLeftToWaitFor) {
  EventLoop loop;
  int ran = 0;
  loop.post([&] { ++ran; });
  auto timer = loop.after(5ms, [&] { ++ran; });
  run_eagerly(loop);
  EXPECT_EQ(ran, 2);
}

TEST(EagerLoop, RunsWhatOthersPostWhetherItLooksOrSleeps) {
  EventLoop loop;
  auto work = boost::asio::make_work_guard(loop.context);
  std::thread thread([&] { run_eagerly(loop); });
  std::atomic<int> ran{0};
  for (int i = 0; i < 2000; ++i) {
    loop.post([&] { ++ran; });
    ASSERT_TRUE(eventually([&] { return ran == i + 1; }));
    if (i % 400 == 0) std::this_thread::sleep_for(20ms);
  }
  loop.post([&] { loop.context.stop(); });
  thread.join();
}

TEST(EagerLoop, PassesOnWhatAHandlerThrows) {
  EventLoop loop;
  loop.post([] { throw std::runtime_error("a handler's"); });
  EXPECT_THROW(run_eagerly(loop), std::runtime_error);
}

// It has looked for events that came fast, and then none come: it falls asleep once and stays so.
TEST(EagerLoop, SleepsWhileNothingHappens) {
  EventLoop loop;
  auto work = boost::asio::make_work_guard(loop.context);
  std::thread thread([&] { run_eagerly(loop); });
  // What the loop's thread has used of a processor, in nanoseconds.
  auto used = [&] {
    std::atomic<int64_t> result{-1};
    loop.post([&] {
      timespec time{};
      ::clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
      result = time.tv_sec * 1'000'000'000LL + time.tv_nsec;
    });
    EXPECT_TRUE(eventually([&] { return result >= 0; }));
    return result.load();
  };
  for (int i = 0; i < 200; ++i) used();
  int64_t before = used();
  std::this_thread::sleep_for(500ms);
  EXPECT_LT(used() - before, 250'000'000) << "a loop that looks all the time uses all of it";
  loop.post([&] { loop.context.stop(); });
  thread.join();
}

}  // namespace
}  // namespace manta
