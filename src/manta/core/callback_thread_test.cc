#include <gmock/gmock.h>

#include <future>
#include <stdexcept>
#include <vector>

#include "manta/core/callback_thread_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;

TEST(CallbackThreadTest, CallsInOrderAndFinishesWhatIsLeft) {
  std::vector<int> called;
  CallbackThread thread;
  thread.start();
  thread.start();  // it has started already
  for (int i = 0; i < 3; ++i) thread.add([&, i] { called.push_back(i); });
  thread.finish();
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
  thread.add([&] { called.push_back(3); });  // too late
  thread.finish();
  EXPECT_THAT(called, ElementsAre(0, 1, 2));
}

TEST(CallbackThreadTest, WhatACallThrowsEndsThatCallOnly) {
  std::vector<int> called;
  CallbackThread thread;
  thread.start();
  thread.add([] { throw std::runtime_error("no"); });
  thread.add([] { throw 1; });
  thread.add([&] { called.push_back(1); });
  thread.finish();
  EXPECT_THAT(called, ElementsAre(1));
}

TEST(CallbackThreadTest, ACallMayEndTheThreadsOwner) {
  auto thread = std::make_shared<CallbackThread>();
  thread->start();
  std::promise<void> ended;
  thread->add([&ended, owner = thread]() mutable {
    owner.reset();
    ended.set_value();
  });
  thread.reset();
  EXPECT_EQ(ended.get_future().wait_for(std::chrono::seconds(60)), std::future_status::ready);
}

TEST(CallbackThreadTest, NothingIsStartedForNothing) {
  CallbackThread thread;
  thread.finish();
}

}  // namespace
}  // namespace manta
