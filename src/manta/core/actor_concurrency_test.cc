#include <gmock/gmock.h>
#include <signal.h>

#include <condition_variable>
#include <fstream>
#include <mutex>
#include <numeric>
#include <sstream>

#include "manta/base/error_internal.h"
#include "manta/base/error_of_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/actor.h"
#include "manta/core/init.h"
#include "manta/core/patience_internal.h"

namespace manta {
namespace {

using testing::AllOf;
using testing::HasSubstr;

// Calls that wait for each other.
class Meeting {
 public:
  /// Whether `count` calls of it, this one included, were there before the test lost patience.
  bool meet(int count) {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    return changed_.wait_for(lock, kPatience, [&] { return here_ >= count; });
  }
  /// Waits for open().
  bool wait_outside() {
    std::unique_lock lock(mutex_);
    ++here_;
    changed_.notify_all();
    return changed_.wait_for(lock, kPatience, [&] { return open_; });
  }
  /// Returns once `count` calls are there.
  bool are_there(int count) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, kPatience, [&] { return here_ >= count; });
  }
  void open() {
    std::lock_guard lock(mutex_);
    open_ = true;
    changed_.notify_all();
  }
  void fail() { throw std::runtime_error("not today"); }
  int pid() { return ::getpid(); }

  /// Gets what a task of one CPU returns.
  int get_from_task(int x) {
    int result = get(remote([](int y) { return y + 1; }, x), kPatience);
    open();
    return result;
  }
  ObjectRef<int> start_task(int x) {
    return remote([](int y) { return 2 * y; }, x);
  }
  /// Waits for something that never comes, until it is cancelled.
  std::string wait_for_ever(const ObjectRef<int>& never) {
    {
      std::lock_guard lock(mutex_);
      ++here_;
      changed_.notify_all();
    }
    get(never, kPatience);
    return "it came";
  }
  std::string cancelled_or_not() {
    wait_outside();
    return is_cancelled() ? "cancelled" : "not cancelled";
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  int here_ = 0;
  bool open_ = false;
};

TEST(ActorConcurrency, CallsThatWaitForEachOtherFinish) {
  auto meeting = actor<Meeting>({.max_concurrency = 3});
  std::vector<ObjectRef<bool>> calls;
  for (int i = 0; i < 3; ++i) calls.push_back(meeting.call<&Meeting::meet>(3));
  for (auto& call : calls) EXPECT_TRUE(get(call, kPatience));
}

TEST(ActorConcurrency, CallsOfSeveralTasksMeet) {
  auto meeting = actor<Meeting>({.max_concurrency = 2});
  std::vector<ObjectRef<bool>> tasks;
  for (int i = 0; i < 2; ++i) {
    tasks.push_back(remote(
        [](ActorHandle<Meeting> meeting) {
          return get(meeting.call<&Meeting::meet>(2), kPatience);
        },
        meeting));
  }
  for (auto& task : tasks) EXPECT_TRUE(get(task, kPatience));
}

// Notes how many of its calls run at a time, and in which order they began.
class Counted {
 public:
  void work(int number) {
    {
      std::lock_guard lock(mutex_);
      begun_.push_back(number);
      most_ = std::max(most_, ++now_);
    }
    std::this_thread::yield();
    std::lock_guard lock(mutex_);
    --now_;
  }
  int most() { return most_; }
  std::vector<int> begun() { return begun_; }

 private:
  std::mutex mutex_;
  int now_ = 0, most_ = 0;
  std::vector<int> begun_;
};

TEST(ActorConcurrency, ByDefaultOneCallRunsAtATimeInOrder) {
  auto counted = actor<Counted>();
  std::vector<int> expected(2000);
  std::iota(expected.begin(), expected.end(), 0);
  for (int i : expected) counted.call<&Counted::work>(i);
  EXPECT_EQ(get(counted.call<&Counted::begun>(), kPatience), expected);
  EXPECT_EQ(get(counted.call<&Counted::most>(), kPatience), 1);
}

TEST(ActorConcurrency, MoreCallsThanThreadsWaitForTheirTurn) {
  auto counted = actor<Counted>({.max_concurrency = 4});
  std::vector<ObjectRef<void>> calls;
  for (int i = 0; i < 3000; ++i) calls.push_back(counted.call<&Counted::work>(i));
  for (auto& call : calls) get(call, kPatience);
  EXPECT_LE(get(counted.call<&Counted::most>(), kPatience), 4);
  EXPECT_EQ(get(counted.call<&Counted::begun>(), kPatience).size(), 3000u);
}

TEST(ActorConcurrency, AFailingCallHurtsNoOther) {
  auto meeting = actor<Meeting>({.max_concurrency = 2});
  auto waits = meeting.call<&Meeting::wait_outside>();
  Error error = error_of([&] { get(meeting.call<&Meeting::fail>(), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(), HasSubstr("Meeting::fail' threw std::runtime_error: not today"));
  meeting.call<&Meeting::open>();
  EXPECT_TRUE(get(waits, kPatience));
}

TEST(ActorConcurrency, DeathFailsAllCallsUnderWay) {
  auto meeting = actor<Meeting>({.max_concurrency = 4});
  std::vector<ObjectRef<bool>> under_way;
  for (int i = 0; i < 3; ++i) under_way.push_back(meeting.call<&Meeting::wait_outside>());
  ASSERT_TRUE(get(meeting.call<&Meeting::are_there>(3), kPatience));
  EXPECT_THAT(why_waits(under_way[2]), HasSubstr("runs in"));
  ::kill(get(meeting.call<&Meeting::pid>(), kPatience), SIGKILL);
  for (auto& call : under_way) {
    Error error = error_of([&] { get(call, kPatience); });
    EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
    EXPECT_THAT(error.what(),
                AllOf(HasSubstr("Meeting::wait_outside' was under way"), HasSubstr("signal 9")));
  }
  EXPECT_EQ(error_of([&] { get(meeting.call<&Meeting::pid>(), kPatience); }).kind(),
            ErrorKind::kWorkerLost);
}

TEST(ActorConcurrency, AfterARestartThoseThatHadNotBegunRun) {
  auto meeting = actor<Meeting>({.max_restarts = 1, .max_concurrency = 3});
  auto first = meeting.call<&Meeting::wait_outside>();
  auto second = meeting.call<&Meeting::wait_outside>();
  ASSERT_TRUE(get(meeting.call<&Meeting::are_there>(2), kPatience));
  auto third = meeting.call<&Meeting::wait_outside>();
  std::vector<ObjectRef<bool>> later;
  for (int i = 0; i < 2; ++i) later.push_back(meeting.call<&Meeting::meet>(2));
  kill(meeting, {.restart = true});
  for (auto& call : {first, second, third}) {
    EXPECT_EQ(error_of([&] { get(call, kPatience); }).kind(), ErrorKind::kWorkerLost);
  }
  for (auto& call : later) EXPECT_TRUE(get(call, kPatience));
}

struct DiesTheFirstTime {
  // The first process that runs it ends once `count` calls of it are under way.
  int call(const std::string& folder, int count) {
    bool first = ::access((folder + "/died").c_str(), F_OK) != 0;
    if (!first) return 42;
    if (!meeting.meet(count)) return 0;
    std::ofstream(folder + "/died") << "x";
    ::raise(SIGKILL);
    return 0;
  }
  Meeting meeting;
};

TEST(ActorConcurrency, CallsUnderWayAreRetriedOnRequest) {
  TemporaryFolder folder;
  auto dies =
      actor<DiesTheFirstTime>({.max_restarts = 1, .max_call_retries = 1, .max_concurrency = 3});
  std::vector<ObjectRef<int>> calls;
  for (int i = 0; i < 3; ++i) {
    calls.push_back(dies.call<&DiesTheFirstTime::call>(folder.path(), 3));
  }
  for (auto& call : calls) EXPECT_EQ(get(call, kPatience), 42);
}

TEST(ActorConcurrency, ACallThatWaitsLendsTheCpusThoughAnotherGoesOn) {
  // It has all CPUs of the run, and what it waits for needs one.
  auto meeting =
      actor<Meeting>({.resources = {.cpus = cluster_resources().cpus}, .max_concurrency = 2});
  auto goes_on = meeting.call<&Meeting::wait_outside>();
  EXPECT_EQ(get(meeting.call<&Meeting::get_from_task>(1), kPatience), 2);
  EXPECT_TRUE(get(goes_on, kPatience));
  // Afterwards the actor takes its CPUs back.
  EXPECT_EQ(available_resources().cpus, 0);
}

TEST(ActorConcurrency, AReferenceMadeInACallOutlivesIt) {
  auto meeting = actor<Meeting>({.max_concurrency = 2});
  auto outside = meeting.call<&Meeting::wait_outside>();
  ObjectRef<int> inner = get(meeting.call<&Meeting::start_task>(21), kPatience);
  EXPECT_EQ(get(inner, kPatience), 42);
  meeting.call<&Meeting::open>();
  EXPECT_TRUE(get(outside, kPatience));
}

TEST(ActorConcurrency, ACancellationIsOneCallsOwn) {
  auto never_starts = actor<Meeting>();
  auto meeting = actor<Meeting>({.max_concurrency = 4});
  ObjectRef<bool> blocks = never_starts.call<&Meeting::wait_outside>();
  auto never = remote([](bool) { return 1; }, blocks);
  auto waits = meeting.call<&Meeting::wait_for_ever>(never);
  auto other = meeting.call<&Meeting::cancelled_or_not>();
  ASSERT_TRUE(get(meeting.call<&Meeting::are_there>(2), kPatience));
  cancel(waits);
  EXPECT_EQ(error_of([&] { get(waits, kPatience); }).kind(), ErrorKind::kCancelled);
  meeting.call<&Meeting::open>();
  EXPECT_EQ(get(other, kPatience), "not cancelled");
}

struct Destroyed {
  explicit Destroyed(std::string path) : path(std::move(path)) {}
  ~Destroyed() { std::ofstream(path, std::ios::app) << "destroyed"; }
  void call(int count) {
    if (meeting.meet(count)) std::ofstream(path, std::ios::app) << "call ";
  }
  std::string path;
  Meeting meeting;
};

TEST(ActorConcurrency, EndsWithItsLastHandleAfterAllCalls) {
  TemporaryFolder folder;
  std::string path = folder / "what";
  std::vector<ObjectRef<void>> calls;
  {
    auto destroyed = actor<Destroyed>({.max_concurrency = 2}, path);
    for (int i = 0; i < 2; ++i) calls.push_back(destroyed.call<&Destroyed::call>(2));
  }
  for (auto& call : calls) get(call, kPatience);
  std::string text;
  for (auto until = Clock::now() + kPatience;
       Clock::now() < until && text.find("destroyed") == std::string::npos;) {
    std::stringstream all;
    all << std::ifstream(path).rdbuf();
    text = all.str();
  }
  EXPECT_EQ(text, "call call destroyed");
}

TEST(ActorConcurrency, AbsurdNumbersAreRefused) {
  for (int number : {0, -1, ActorOptions::kMaxConcurrency + 1}) {
    Error error = error_of([&] { actor<Meeting>({.max_concurrency = number}); });
    EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
    EXPECT_THAT(error.what(), HasSubstr(str("max_concurrency, the number of its calls that run at "
                                            "once, must be from 1 to 1000 (was ",
                                            number, ")")));
  }
}

}  // namespace
}  // namespace manta
