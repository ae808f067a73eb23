#include "manta/core/actor.h"

#include <gmock/gmock.h>
#include <signal.h>

#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/init.h"
#include "manta/core/patience_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

class Counter {
 public:
  Counter() = default;
  explicit Counter(int start) : value_(start) {}
  int add(int x) { return value_ += x; }
  int value() const { return value_; }
  void fail() { throw std::runtime_error("counter is broken"); }
  int pid() { return ::getpid(); }
  int die() {
    ::raise(SIGKILL);
    return 0;
  }
  std::string process() { return get_runtime_context().process; }

 private:
  int value_ = 0;
};

bool is_alive(int pid) { return ::kill(pid, 0) == 0; }

bool ends(int pid) {
  for (auto until = Clock::now() + kPatience; Clock::now() < until;) {
    if (!is_alive(pid)) return true;
    std::this_thread::sleep_for(1ms);
  }
  return false;
}

TEST(Actor, KeepsStateBetweenCalls) {
  auto counter = actor<Counter>(10);
  EXPECT_EQ(get(counter.call<&Counter::add>(5)), 15);
  EXPECT_EQ(get(counter.call<&Counter::add>(5)), 20);
  EXPECT_EQ(get(counter.call<&Counter::value>()), 20);
  EXPECT_NE(get(counter.call<&Counter::pid>()), ::getpid());
}

TEST(Actor, CallsOfOneCallerRunInOrder) {
  struct Log {
    std::vector<int> seen;
    void note(int i) { seen.push_back(i); }
    std::vector<int> all() { return seen; }
  };
  auto log = actor<Log>();
  std::vector<int> expected;
  for (int i = 0; i < 3000; ++i) {
    log.call<&Log::note>(i);
    expected.push_back(i);
  }
  EXPECT_EQ(get(log.call<&Log::all>(), kPatience), expected);
}

TEST(Actor, ACallWhoseArgumentIsLateHoldsUpTheLaterOnes) {
  struct Log {
    std::vector<int> seen;
    void note(int i) { seen.push_back(i); }
    std::vector<int> all() { return seen; }
  };
  auto log = actor<Log>();
  auto late = remote([] {
    std::this_thread::sleep_for(50ms);
    return 1;
  });
  log.call<&Log::note>(late);
  log.call<&Log::note>(2);
  EXPECT_EQ(get(log.call<&Log::all>(), kPatience), (std::vector<int>{1, 2}));
}

TEST(Actor, ExceptionsLeaveItAlive) {
  auto counter = actor<Counter>(1);
  Error error = error_of([&] { get(counter.call<&Counter::fail>(), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(),
              HasSubstr("Counter::fail' threw std::runtime_error: counter is broken"));
  EXPECT_EQ(get(counter.call<&Counter::add>(1)), 2);
}

TEST(Actor, ConstructorArgumentsMayBeReferences) {
  auto start = remote([] { return 40; });
  auto counter = actor<Counter>(start);
  EXPECT_EQ(get(counter.call<&Counter::add>(2), kPatience), 42);
}

struct Broken {
  Broken() { throw std::invalid_argument("no such model"); }
  int f() { return 1; }
};

TEST(Actor, AFailedConstructorFailsEveryCall) {
  auto broken = actor<Broken>();
  for (int i = 0; i < 2; ++i) {
    Error error = error_of([&] { get(broken.call<&Broken::f>(), kPatience); });
    EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
    EXPECT_THAT(error.what(), HasSubstr("the constructor of actor 'manta::Broken' threw "
                                        "std::invalid_argument: no such model"));
  }
}

TEST(Actor, HandlesTravelToTasksAndOtherActors) {
  auto counter = actor<Counter>(0);
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 10; ++i) {
    refs.push_back(remote(
        [](const ActorHandle<Counter>& c) { return get(c.call<&Counter::add>(1)); }, counter));
  }
  get(refs, kPatience);
  EXPECT_EQ(get(counter.call<&Counter::value>()), 10);
}

TEST(Actor, TasksMayCreateAndReturnThem) {
  auto handle = get(remote([] { return actor<Counter>(7); }), kPatience);
  EXPECT_EQ(get(handle.call<&Counter::add>(1), kPatience), 8);
}

TEST(Actor, EndsWithItsLastHandleAfterTheCallsMade) {
  auto counter = actor<Counter>(0);
  int pid = get(counter.call<&Counter::pid>());
  auto last = counter.call<&Counter::add>(3);
  counter = {};
  EXPECT_EQ(get(last, kPatience), 3);
  EXPECT_TRUE(ends(pid));
}

struct Farewell {
  std::string path;
  explicit Farewell(std::string p) : path(std::move(p)) {}
  ~Farewell() { std::ofstream(path) << "bye"; }
  int pid() { return ::getpid(); }
};

TEST(Actor, RunsItsDestructorWhenItEnds) {
  auto path = testing::TempDir() + "farewell-" + std::to_string(::getpid());
  auto farewell = actor<Farewell>(path.c_str());
  int pid = get(farewell.call<&Farewell::pid>());
  farewell = {};
  EXPECT_TRUE(ends(pid));
  std::string text;
  std::ifstream(path) >> text;
  EXPECT_EQ(text, "bye");
  ::unlink(path.c_str());
}

TEST(Actor, NamedOnesAreFoundUntilTheyEnd) {
  auto counter = actor<Counter>({.name = "the counter"}, 5);
  EXPECT_EQ(get(get_actor<Counter>("the counter").call<&Counter::add>(1)), 6);
  EXPECT_EQ(
      get(remote([] { return get(get_actor<Counter>("the counter").call<&Counter::add>(1)); }),
          kPatience),
      7);
  EXPECT_THAT(get(counter.call<&Counter::process>()), HasSubstr("the_counter-"));

  Error taken = error_of([] { actor<Counter>({.name = "the counter"}); });
  EXPECT_EQ(taken.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(taken.what(), HasSubstr("an actor named 'the counter' lives already"));
  Error wrong = error_of([] { get_actor<Broken>("the counter"); });
  EXPECT_EQ(wrong.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(wrong.what(), HasSubstr("Counter, not a"));
  EXPECT_EQ(error_of([] { get_actor<Counter>("nobody"); }).kind(), ErrorKind::kNotFound);

  kill(counter);
  EXPECT_EQ(error_of([] { get_actor<Counter>("the counter"); }).kind(), ErrorKind::kNotFound);
  auto next = actor<Counter>({.name = "the counter"}, 1);
  EXPECT_EQ(get(next.call<&Counter::value>(), kPatience), 1);
}

TEST(Actor, KillFailsCallsAndSaysWhy) {
  auto counter = actor<Counter>();
  int pid = get(counter.call<&Counter::pid>());
  kill(counter);
  Error error = error_of([&] { get(counter.call<&Counter::value>(), kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("was killed by manta::kill"));
  EXPECT_TRUE(ends(pid));
}

TEST(Actor, DeathWithoutRestartsFailsTheCallUnderWayAndAllLaterOnes) {
  auto counter = actor<Counter>();
  auto deadly = counter.call<&Counter::die>();
  auto later = counter.call<&Counter::value>();
  Error error = error_of([&] { get(deadly, kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost);
  EXPECT_THAT(error.what(), HasSubstr("Counter::die' was under way"));
  EXPECT_THAT(error.what(), HasSubstr("signal 9"));
  EXPECT_EQ(error_of([&] { get(later, kPatience); }).kind(), ErrorKind::kWorkerLost);
  EXPECT_EQ(error_of([&] { get(counter.call<&Counter::value>(), kPatience); }).kind(),
            ErrorKind::kWorkerLost);
}

TEST(Actor, RestartsWithItsArgumentsAndRunsWhatHadNotStarted) {
  auto counter = actor<Counter>({.max_restarts = 1}, 100);
  EXPECT_EQ(get(counter.call<&Counter::add>(1)), 101);
  auto deadly = counter.call<&Counter::die>();
  std::vector<ObjectRef<int>> later;
  for (int i = 0; i < 10; ++i) later.push_back(counter.call<&Counter::add>(1));
  EXPECT_EQ(error_of([&] { get(deadly, kPatience); }).kind(), ErrorKind::kWorkerLost);
  for (int i = 0; i < 10; ++i) EXPECT_EQ(get(later[static_cast<size_t>(i)], kPatience), 101 + i);
  EXPECT_EQ(error_of([&] { get(counter.call<&Counter::die>(), kPatience); }).kind(),
            ErrorKind::kWorkerLost);
  EXPECT_EQ(error_of([&] { get(counter.call<&Counter::value>(), kPatience); }).kind(),
            ErrorKind::kWorkerLost);
}

TEST(Actor, KillWithRestartBringsItBack) {
  auto counter = actor<Counter>({.max_restarts = 3}, 5);
  int first = get(counter.call<&Counter::pid>());
  get(counter.call<&Counter::add>(1));
  kill(counter, {.restart = true});
  EXPECT_TRUE(ends(first));
  EXPECT_EQ(get(counter.call<&Counter::value>(), kPatience), 5);
}

TEST(Actor, KillWithRestartWhileItIsConstructed) {
  for (int i = 0; i < 10; ++i) {
    auto counter = actor<Counter>({.max_restarts = 5}, i);
    auto value = counter.call<&Counter::value>();
    kill(counter, {.restart = true});
    EXPECT_EQ(get(counter.call<&Counter::value>(), kPatience), i);
  }
}

struct DiesOnce {
  int call(const std::string& path) {
    if (::access(path.c_str(), F_OK) != 0) {
      std::ofstream(path) << "x";
      ::raise(SIGKILL);
    }
    return 42;
  }
};

TEST(Actor, CallsAreRetriedOnRequest) {
  auto path = testing::TempDir() + "dies-once-" + std::to_string(::getpid());
  auto actor_ = actor<DiesOnce>({.max_restarts = 1, .max_call_retries = 1});
  EXPECT_EQ(get(actor_.call<&DiesOnce::call>(path), kPatience), 42);
  ::unlink(path.c_str());
}

TEST(Actor, HoldsItsResourcesWhileItLives) {
  auto counter = actor<Counter>({.resources = {.cpus = 2}}, 0);
  get(counter.call<&Counter::value>());
  auto waiting = remote([] { return 1; });
  EXPECT_TRUE(wait(std::vector{waiting}, 1, 50ms).ready.empty());
  EXPECT_THAT(why_waits(waiting), HasSubstr("held by actor 'manta::Counter' (2 CPU)"));
  counter = {};
  EXPECT_EQ(get(waiting, kPatience), 1);
  EXPECT_EQ(error_of([] { actor<Counter>({.resources = {.cpus = 100}}); }).kind(),
            ErrorKind::kResources);
}

TEST(Actor, CallsThatHaveNotStartedCanBeCancelled) {
  struct Slow {
    void sleep(int ms) { std::this_thread::sleep_for(std::chrono::milliseconds(ms)); }
    int one() { return 1; }
  };
  auto slow = actor<Slow>();
  slow.call<&Slow::sleep>(100);
  auto unwanted = slow.call<&Slow::one>();
  auto wanted = slow.call<&Slow::one>();
  cancel(unwanted);
  EXPECT_EQ(error_of([&] { get(unwanted, kPatience); }).kind(), ErrorKind::kCancelled);
  EXPECT_EQ(get(wanted, kPatience), 1);
  auto running = slow.call<&Slow::sleep>(50);
  Error error = error_of([&] { cancel(running, {.force = true}); });
  EXPECT_EQ(error.kind(), ErrorKind::kInvalidArgument);
  EXPECT_THAT(error.what(), HasSubstr("kill(actor)"));
}

TEST(Actor, EmptyHandlesAreRefused) {
  ActorHandle<Counter> none;
  EXPECT_EQ(error_of([&] { none.call<&Counter::value>(); }).kind(), ErrorKind::kInvalidArgument);
  EXPECT_EQ(error_of([&] { kill(none); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(Actor, MayBeDroppedOrKilledBeforeItsProcessIsThere) {
  for (int i = 0; i < 20; ++i) {
    { auto dropped = actor<Counter>(1); }
    auto killed = actor<Counter>(1);
    kill(killed);
  }
  EXPECT_EQ(get(remote([] { return 1; }), kPatience), 1);
}

TEST(Actor, ItsLastCallMayOutliveItsLastHandleHoweverItEnds) {
  EXPECT_EQ(get(actor<Counter>(1).call<&Counter::add>(1), kPatience), 2);
  auto bad = remote([]() -> int { throw std::runtime_error("bad argument"); });
  EXPECT_EQ(error_of([&] { get(actor<Counter>(1).call<&Counter::add>(bad), kPatience); }).kind(),
            ErrorKind::kUserCode);
  EXPECT_EQ(error_of([&] { get(actor<Counter>(bad).call<&Counter::add>(1), kPatience); }).kind(),
            ErrorKind::kUserCode);
  EXPECT_EQ(error_of([] { get(actor<Broken>().call<&Broken::f>(), kPatience); }).kind(),
            ErrorKind::kUserCode);
  EXPECT_EQ(error_of([] { get(actor<Counter>(1).call<&Counter::die>(), kPatience); }).kind(),
            ErrorKind::kWorkerLost);
  ActorOptions restarts;
  restarts.max_restarts = 2;
  EXPECT_EQ(
      error_of([&] { get(actor<Counter>(restarts, 1).call<&Counter::die>(), kPatience); }).kind(),
      ErrorKind::kWorkerLost);
  EXPECT_EQ(get(remote([] { return 1; }), kPatience), 1);
}

TEST(Actor, ACancelledCallDoesNotHoldUpThoseBehindIt) {
  auto counter = actor<Counter>(0);
  auto never = remote({.resources = {.cpus = 0}}, [] {
    while (!is_cancelled()) std::this_thread::sleep_for(1ms);
    return 1;
  });
  auto waits = counter.call<&Counter::add>(never);
  auto behind = counter.call<&Counter::add>(5);
  cancel(waits);
  EXPECT_EQ(get(behind, kPatience), 5);
  cancel(never);
}

class Prefetcher {
 public:
  Prefetcher()
      : thread_([this] {
          for (int i = 0; i < 20; ++i)
            sum_ += get(remote(
                {.resources = {.cpus = 0}}, [](int x) { return x; }, i));
          done_ = true;
        }) {}
  ~Prefetcher() { thread_.join(); }
  int sum() { return done_ ? sum_.load() : -1; }

 private:
  std::atomic<int> sum_{0};
  std::atomic<bool> done_{false};
  std::thread thread_;
};

TEST(Actor, ItsOwnThreadsMayWaitWhileItIsIdle) {
  auto prefetcher = actor<Prefetcher>();
  int sum = -1;
  for (auto until = Clock::now() + kPatience; sum < 0 && Clock::now() < until;) {
    sum = get(prefetcher.call<&Prefetcher::sum>(), kPatience);
    std::this_thread::sleep_for(1ms);
  }
  EXPECT_EQ(sum, 190);
}

struct KeepsReference {
  ObjectRef<int> ref;
  explicit KeepsReference(ObjectRef<int> r) : ref(std::move(r)) {}
  int value() { return get(ref); }
};

TEST(Actor, AConstructorMayWantTheReferenceItself) {
  auto ref = put(7);
  auto keeps = actor<KeepsReference>(ref);
  ref = {};
  EXPECT_EQ(get(keeps.call<&KeepsReference::value>(), kPatience), 7);
}

TEST(Actor, ManyTasksThatAskForNothingDoNotKeepActorsFromStarting) {
  std::vector<ObjectRef<void>> waiting;
  for (int i = 0; i < 70; ++i) {
    waiting.push_back(remote({.resources = {.cpus = 0}}, [] {
      while (!is_cancelled()) std::this_thread::sleep_for(1ms);
    }));
  }
  EXPECT_EQ(get(actor<Counter>(1).call<&Counter::value>(), kPatience), 1);
  for (const auto& ref : waiting) cancel(ref);
}

TEST(ActorGroup, StartsAllOrNone) {
  Resources one{.cpus = 1};
  auto holder = actor<Counter>({.resources = one});
  get(holder.call<&Counter::pid>(), kPatience);
  auto group = actor_group<Counter>({{.resources = one}, {.resources = one}}, 5);
  auto values = std::vector{group[0].call<&Counter::value>(), group[1].call<&Counter::value>()};
  EXPECT_THAT(why_waits(values[0]), HasSubstr("waits for the start of"));
  EXPECT_EQ(available_resources().cpus, 1);  // it has not taken the free CPU
  kill(holder);
  EXPECT_EQ(get(values, kPatience), (std::vector{5, 5}));
  EXPECT_EQ(available_resources().cpus, 0);
}

TEST(ActorGroup, WhatEndsOneBeforeTheStartEndsAll) {
  auto holder = actor<Counter>({.resources = {.cpus = 2}});
  get(holder.call<&Counter::pid>(), kPatience);
  auto group = actor_group<Counter>({{.resources = {.cpus = 1}}, {.resources = {.cpus = 1}}});
  auto value = group[0].call<&Counter::value>();
  kill(group[1]);
  EXPECT_THAT(error_of([&] { get(value, kPatience); }).what(), HasSubstr("was killed"));
}

TEST(ActorGroup, ImpossibleOnesAreRefusedAtOnce) {
  std::vector<ActorOptions> three(3, ActorOptions{.resources = {.cpus = 1}});
  EXPECT_THAT(error_of([&] { actor_group<Counter>(three); }).what(),
              HasSubstr("asks for 3 times 1 CPU, but this machine has only 2 CPU"));
  EXPECT_THAT(error_of([] { actor_group<Counter>({{.name = "me"}}); }).what(),
              HasSubstr("can have neither a name (received 'me')"));
  EXPECT_TRUE(actor_group<Counter>({}).empty());
}

TEST(ActorGroup, ProcessesHaveTheNameAndTheLogThatWereAskedFor) {
  std::string log = testing::TempDir() + "group-" + std::to_string(::getpid()) + ".log";
  auto group = actor_group<Counter>({{.process_name = "rank-0", .log_path = log}});
  EXPECT_EQ(get(group[0].call<&Counter::process>(), kPatience), "rank-0");
  EXPECT_EQ(::access(log.c_str(), F_OK), 0);
  ::unlink(log.c_str());
}

}  // namespace
}  // namespace manta
