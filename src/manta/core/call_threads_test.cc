#include <gmock/gmock.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <future>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/call_threads_internal.h"
#include "manta/core/patience_internal.h"

namespace manta {
namespace {

using testing::ElementsAre;

manta::Run numbered(ObjectId id) {
  manta::Run call;
  call.spec.id = id;
  return call;
}

TEST(CallThreadsTest, OneThreadRunsCallsInOrderAndFinishRunsAll) {
  std::vector<ObjectId> ran;
  CallThreads threads(
      1, [&](manta::Run& call) { ran.push_back(call.spec.id); }, [](bool) {});
  for (ObjectId id = 1; id <= 100; ++id) threads.add(numbered(id));
  threads.finish();
  EXPECT_EQ(ran.size(), 100u);
  EXPECT_TRUE(std::is_sorted(ran.begin(), ran.end()));
}

TEST(CallThreadsTest, WhatHasNotBegunCanBeTakenBack) {
  std::promise<void> begun, go_on;
  auto may_go_on = go_on.get_future();
  std::vector<ObjectId> ran;
  CallThreads threads(
      1,
      [&](manta::Run& call) {
        ran.push_back(call.spec.id);
        if (call.spec.id != 1) return;
        begun.set_value();
        may_go_on.wait_for(kPatience);
      },
      [](bool) {});
  for (ObjectId id = 1; id <= 3; ++id) threads.add(numbered(id));
  ASSERT_EQ(begun.get_future().wait_for(kPatience), std::future_status::ready);
  EXPECT_FALSE(threads.remove(1));
  EXPECT_TRUE(threads.remove(2));
  EXPECT_FALSE(threads.remove(2));
  go_on.set_value();
  threads.finish();
  EXPECT_THAT(ran, ElementsAre(1, 3));
}

TEST(CallThreadsTest, TellsWhenTheFirstWaitsAndWhenNoneDoes) {
  std::vector<bool> told;
  std::mutex mutex;
  std::condition_variable changed;
  int inside = 0;
  CallThreads* threads = nullptr;
  CallThreads two(
      2,
      [&](manta::Run&) {
        EXPECT_TRUE(threads->begin_wait());
        std::unique_lock lock(mutex);
        ++inside;
        changed.notify_all();
        EXPECT_TRUE(changed.wait_for(lock, kPatience, [&] { return inside == 2; }));
        lock.unlock();
        EXPECT_TRUE(threads->end_wait());
      },
      [&](bool waiting) { told.push_back(waiting); });
  threads = &two;
  EXPECT_FALSE(two.begin_wait());
  EXPECT_FALSE(two.end_wait());
  two.add(numbered(1));
  two.add(numbered(2));
  two.finish();
  EXPECT_THAT(told, ElementsAre(true, false));
}

#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)  // which need address space
TEST(CallThreadsTest, AllThreadsOrNone) {
  // Runs in a child process, which has address space for only some of the stacks.
  pid_t pid = ::fork();
  if (pid == 0) {
    rlimit little{size_t{4} << 30, size_t{4} << 30};
    ::setrlimit(RLIMIT_AS, &little);
    Error error = error_of([] {
      CallThreads threads(
          1000, [](manta::Run&) {}, [](bool) {});
    });
    bool good = error.kind() == ErrorKind::kResources &&
                std::string(error.what()).find("of the 1000 that run an actor's calls") !=
                    std::string::npos;
    ::_exit(good ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(pid, &status, 0), pid);
  EXPECT_EQ(status, 0);
}
#endif

}  // namespace
}  // namespace manta
