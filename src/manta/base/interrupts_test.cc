#include <gtest/gtest.h>

#include <atomic>
#include <csignal>
#include <memory>
#include <thread>
#include <vector>

#include "manta/base/eventually_internal.h"
#include "manta/base/interrupts_internal.h"

namespace manta {
namespace {

std::atomic<int> own_calls = 0;

// The program's own handler, before and after.
class InterruptsTest : public testing::Test {
 protected:
  InterruptsTest() {
    own_calls = 0;
    struct sigaction action {};
    action.sa_handler = [](int) { ++own_calls; };
    ::sigaction(SIGINT, &action, &before_);
  }
  ~InterruptsTest() override { ::sigaction(SIGINT, &before_, nullptr); }

  struct sigaction before_ {};
};

TEST_F(InterruptsTest, EveryListenerHearsOfTheFirstSignal) {
  std::atomic<int> a = 0, b = 0;
  {
    InterruptListener first([&] { ++a; });
    auto second = std::make_unique<InterruptListener>([&] { ++b; });
    second.reset();  // the first listener goes on listening
    InterruptListener third([&] { ++b; });
    ::raise(SIGINT);
    EXPECT_TRUE(eventually([&] { return a == 1 && b == 1; }));
    EXPECT_EQ(own_calls, 0);
    ::raise(SIGINT);  // the second signal goes to the program's handler
    EXPECT_EQ(own_calls, 1);
  }
  EXPECT_EQ(a, 1);
  EXPECT_EQ(b, 1);
}

TEST_F(InterruptsTest, AListenerAddedAfterTheSignalIsToldToo) {
  std::atomic<int> a = 0, b = 0;
  InterruptListener first([&] { ++a; });
  ::raise(SIGINT);
  EXPECT_TRUE(eventually([&] { return a == 1; }));
  InterruptListener second([&] { ++b; });
  EXPECT_EQ(b, 1);
}

TEST_F(InterruptsTest, AfterTheLastListenerSignalsAreTheProgramsAgain) {
  for (int i = 1; i <= 3; ++i) {
    std::atomic<int> calls = 0;
    {
      InterruptListener listener([&] { ++calls; });
      ::raise(SIGINT);
      EXPECT_TRUE(eventually([&] { return calls == 1; }));
    }
    ::raise(SIGINT);
    EXPECT_EQ(own_calls, i);
  }
}

TEST_F(InterruptsTest, AHandlerThatTheProgramInstalledMeanwhileStays) {
  {
    InterruptListener listener([] {});
    ::signal(SIGINT, [](int) { own_calls += 100; });
  }
  ::raise(SIGINT);
  EXPECT_EQ(own_calls, 100);
}

TEST_F(InterruptsTest, ListenersComeAndGoOnManyThreads) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 8; ++i) {
    threads.emplace_back([] {
      for (int n = 0; n < 200; ++n) InterruptListener listener([] {});
    });
  }
  for (auto& thread : threads) thread.join();
  ::raise(SIGINT);
  EXPECT_EQ(own_calls, 1);
}

}  // namespace
}  // namespace manta
