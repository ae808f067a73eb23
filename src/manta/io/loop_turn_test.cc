#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <ctime>
#include <stdexcept>
#include <thread>
#include <vector>

#include "manta/base/eventually_internal.h"
#include "manta/io/loop_turn_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

TEST(LoopTurn, ReturnsWhenThereIsNothingLeftToWaitFor) {
  EventLoop loop;
  int ran = 0;
  loop.post([&] { ++ran; });
  auto timer = loop.after(5ms, [&] { ++ran; });
  LoopTurn(loop).run();
  EXPECT_EQ(ran, 2);
}

TEST(LoopTurn, RunsWhatOthersPostWhetherItLooksOrSleeps) {
  EventLoop loop;
  auto work = boost::asio::make_work_guard(loop.context);
  std::thread thread([&] { LoopTurn(loop).run(); });
  std::atomic<int> ran{0};
  for (int i = 0; i < 2000; ++i) {
    loop.post([&] { ++ran; });
    ASSERT_TRUE(eventually([&] { return ran == i + 1; }));
    if (i % 400 == 0) std::this_thread::sleep_for(20ms);
  }
  loop.post([&] { loop.context.stop(); });
  thread.join();
}

TEST(LoopTurn, PassesOnWhatAHandlerThrows) {
  EventLoop loop;
  loop.post([] { throw std::runtime_error("a handler's"); });
  EXPECT_THROW(LoopTurn(loop).run(), std::runtime_error);
}

// It has looked for events that came fast, and then none come: it falls asleep once and stays
// asleep.
TEST(LoopTurn, SleepsWhileNothingHappens) {
  EventLoop loop;
  auto work = boost::asio::make_work_guard(loop.context);
  std::thread thread([&] { LoopTurn(loop).run(); });
  // The processor time of the loop's thread, in nanoseconds.
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

// A loop on a thread of its own.
class RunningLoop {
 public:
  RunningLoop() : thread_([this] { turn.run(); }) {}
  ~RunningLoop() {
    loop.post([this] { loop.context.stop(); });
    thread_.join();
  }

  /// Returns which thread runs a function that is posted now; calls `meanwhile` until one has.
  template <class F>
  std::thread::id runs_on(F meanwhile) {
    std::atomic<bool> ran{false};
    std::thread::id id;
    loop.post([&] {
      id = std::this_thread::get_id();
      ran = true;
    });
    EXPECT_TRUE(eventually([&] {
      meanwhile();
      return ran.load();
    }));
    return id;
  }
  std::thread::id own() const { return thread_.get_id(); }

  EventLoop loop;
  LoopTurn turn{loop};

 private:
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{
      loop.context.get_executor()};
  std::thread thread_;
};

TEST(LoopTurn, IsTakenByAThreadThatHelps) {
  RunningLoop running;
  running.turn.take();
  EXPECT_TRUE(eventually(
      [&] { return running.runs_on([&] { running.turn.help(); }) == std::this_thread::get_id(); }));
  running.turn.leave(/*others_follow=*/false);
  EXPECT_EQ(running.runs_on([] {}), running.own());
}

TEST(LoopTurn, GoesBackIfNoneFollows) {
  RunningLoop running;
  for (int i = 0; i < 3; ++i) {
    running.turn.take();
    EXPECT_TRUE(eventually([&] {
      return running.runs_on([&] { running.turn.help(); }) == std::this_thread::get_id();
    }));
    running.turn.leave(/*others_follow=*/true);
    EXPECT_EQ(running.runs_on([] {}), running.own());
  }
}

TEST(LoopTurn, OfAThreadThatDoesNotHelpKeepsNothingWaiting) {
  RunningLoop running;
  running.turn.take();
  for (int i = 0; i < 100; ++i) EXPECT_EQ(running.runs_on([] {}), running.own());
  running.turn.leave(/*others_follow=*/false);
}

TEST(LoopTurn, HandlersRunInOrderAndOneAtATimeOnWhicheverThread) {
  RunningLoop running;
  std::atomic<bool> ends{false};
  std::thread other([&] {  // leaves something on the loop from time to time
    while (!ends) {
      running.loop.post([] {});
      running.turn.help();
    }
  });
  std::vector<int> seen;  // guarded by the loop's lock
  constexpr int kPosts = 20'000;
  for (int i = 0; i < kPosts; ++i) {
    running.loop.post([&, i] { seen.push_back(i); });
    if (i % 3 == 0) running.turn.take();
    running.turn.help();
    if (i % 3 == 2) running.turn.leave(/*others_follow=*/i % 2 == 0);
  }
  running.turn.leave(/*others_follow=*/false);
  ends = true;
  other.join();
  running.runs_on([] {});
  ASSERT_EQ(seen.size(), kPosts);
  EXPECT_TRUE(std::is_sorted(seen.begin(), seen.end()));
}

TEST(LoopTurn, PassesOnToAHelperWhatAHandlerThrows) {
  EventLoop loop;
  LoopTurn turn(loop);
  loop.post([] { throw std::runtime_error("a handler's"); });
  EXPECT_THROW(turn.help(), std::runtime_error);
}

}  // namespace
}  // namespace manta
