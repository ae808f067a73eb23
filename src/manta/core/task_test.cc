#include <gmock/gmock.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fstream>
#include <thread>

#include "manta/base/error_of_internal.h"
#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/actor.h"
#include "manta/core/init.h"
#include "manta/core/patience_internal.h"
#include "manta/core/remote.h"

namespace manta {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;

int add(int a, int b) { return a + b; }
std::string greet(const std::string& name) { return "hello " + name; }
void nothing() {}
int process_id() { return ::getpid(); }

struct Spot {
  double x = 0, y = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(x, y);
  }
};

// A gate that tests open: tasks wait for a file, so that nothing depends on how long things take.
class Gate {
 public:
  Gate()
      : path_(testing::TempDir() + "gate-" + std::to_string(::getpid()) + "-" +
              std::to_string(count_++)) {}
  ~Gate() { ::unlink(path_.c_str()); }
  void open() { std::ofstream(path_) << "open"; }
  const std::string& path() const { return path_; }

 private:
  static inline int count_ = 0;
  std::string path_;
};

void wait_for_file(const std::string& path) {
  auto until = Clock::now() + kPatience;
  while (::access(path.c_str(), F_OK) != 0) {
    if (Clock::now() > until) throw std::runtime_error("the gate was not opened");
    std::this_thread::sleep_for(1ms);
  }
}

int pass_gate(const std::string& path, int value) {
  wait_for_file(path);
  return value;
}

TEST(Task, RunsInAnotherProcess) {
  int pid = get(remote(process_id), kPatience);
  EXPECT_NE(pid, ::getpid());
  EXPECT_GT(pid, 0);
}

TEST(Task, TakesFunctionsLambdasAndConversions) {
  EXPECT_EQ(get(remote(add, 20, 22)), 42);
  EXPECT_EQ(get(remote(&add, short{1}, 2L)), 3);
  EXPECT_EQ(get(remote([](int x) { return 2 * x; }, 21)), 42);
  EXPECT_EQ(get(remote(greet, "world")), "hello world");
  get(remote(nothing));
  auto point = get(remote(
      [](const Spot& p, double f) {
        return Spot{p.x * f, p.y * f};
      },
      Spot{1, 2}, 3));
  EXPECT_EQ(point.x, 3);
  EXPECT_EQ(point.y, 6);
}

TEST(Task, ReferencesAsArgumentsStandForTheirValues) {
  auto three = remote(add, 1, 2);
  auto seven = remote(add, three, 4);
  auto put_five = put(5);
  EXPECT_EQ(get(remote(add, seven, put_five)), 12);
}

TEST(Task, StartsOnlyWhenItsArgumentsAreThere) {
  Gate gate;
  auto slow = remote(pass_gate, gate.path(), 1);
  auto after = remote(add, slow, 1);
  EXPECT_TRUE(wait(std::vector{after}, 1, 50ms).ready.empty());
  EXPECT_THAT(why_waits(after), HasSubstr("waits for its argument 1"));
  gate.open();
  EXPECT_EQ(get(after, kPatience), 2);
}

int fibonacci(int n) {
  if (n < 2) return n;
  auto a = remote(fibonacci, n - 1);
  auto b = remote(fibonacci, n - 2);
  return get(a) + get(b);
}

int depth(int n) { return n == 0 ? 0 : 1 + get(remote(depth, n - 1)); }

TEST(Task, RecursionIsDeeperThanThereAreCpus) {
  EXPECT_EQ(cluster_resources().cpus, 2);
  EXPECT_EQ(get(remote(depth, 10), kPatience), 10);
  EXPECT_EQ(get(remote(fibonacci, 8), kPatience), 21);
}

TEST(Task, ReturnsReferencesThatOutliveIt) {
  auto outer = remote([] { return std::vector{remote(add, 1, 1), remote(add, 2, 2)}; });
  auto inner = get(outer, kPatience);
  outer = {};
  EXPECT_EQ(get(inner, kPatience), (std::vector<int>{2, 4}));
}

TEST(Task, KeepsReferencesInsideArgumentsAlive) {
  auto ref = put(std::string(200'000, 'x'));
  auto sizes =
      remote([](const std::vector<ObjectRef<std::string>>& refs) { return get(refs[0]).size(); },
             std::vector{ref});
  ref = {};
  EXPECT_EQ(get(sizes, kPatience), 200'000u);
}

TEST(Task, ExceptionsComeBackWithTheirMessageAndAreNotRetried) {
  auto counter = testing::TempDir() + "tries-" + std::to_string(::getpid());
  auto failing = remote(
      {.name = "bad"},
      [](const std::string& path) -> int {
        std::ofstream(path, std::ios::app) << "x";
        throw std::runtime_error("the file is on fire");
      },
      counter);
  Error error = error_of([&] { get(failing, kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(), HasSubstr("task 'bad' threw std::runtime_error: the file is on fire"));
  std::ifstream in(counter);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(in), {}), "x");
  ::unlink(counter.c_str());
}

TEST(Task, ExceptionsAreRetriedOnRequest) {
  auto ref = remote({.max_retries = 5, .retry_exceptions = true}, [] {
    int attempt = get_runtime_context().attempt;
    if (attempt < 3) throw std::runtime_error("not yet");
    return attempt;
  });
  EXPECT_EQ(get(ref, kPatience), 3);
}

TEST(Task, FailureOfAnArgumentIsTheTasksFailure) {
  auto bad = remote([]() -> int { throw std::logic_error("root cause"); });
  auto chain = bad;
  for (int i = 0; i < 20; ++i) chain = remote(add, chain, 1);
  Error error = error_of([&] { get(chain, kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(), HasSubstr("root cause"));
}

TEST(Task, ErrorsNameTheFunctionWithoutBeingToldIts) {
  Error error =
      error_of([] { get(remote(greet, remote([]() -> std::string { throw 1; })), kPatience); });
  EXPECT_THAT(error.what(), HasSubstr("is no std::exception"));
  EXPECT_THAT(error.what(), HasSubstr("lambda"));
}

TEST(Task, ImpossibleResourcesFailAtOnceAndSayWhatThereIs) {
  struct Case {
    Resources resources;
    ErrorKind kind;
    std::string text;
  };
  for (const Case& c : std::vector<Case>{
           {{.cpus = 3}, ErrorKind::kResources, "asks for 3 CPU, but this machine has only 2 CPU"},
           {{.gpus = 1}, ErrorKind::kResources, "1 GPU"},
           {{.memory = int64_t{1} << 60}, ErrorKind::kResources, "GiB memory"},
           {{.custom = {{"disk", 1}}}, ErrorKind::kResources, "1 disk"},
           {{.cpus = -1}, ErrorKind::kInvalidArgument, "asks for -1 CPU"},
           {{.gpus = -0.5}, ErrorKind::kInvalidArgument, "-0.5 GPU"}}) {
    Error error = error_of([&] { remote({.resources = c.resources, .name = "big"}, nothing); });
    EXPECT_EQ(error.kind(), c.kind) << error.what();
    EXPECT_THAT(error.what(), HasSubstr("task 'big'"));
    EXPECT_THAT(error.what(), HasSubstr(c.text));
  }
  EXPECT_THAT(error_of([] { remote({.max_retries = -1}, nothing); }).what(), HasSubstr("negative"));
}

TEST(Task, ZeroCpusRunBesideFullOnes) {
  Gate gate;
  std::vector<ObjectRef<int>> busy;
  for (int i = 0; i < 2; ++i) busy.push_back(remote(pass_gate, gate.path(), i));
  std::vector<ObjectRef<int>> free;
  for (int i = 0; i < 100; ++i) free.push_back(remote({.resources = {.cpus = 0}}, add, i, 1));
  auto values = get(free, kPatience);
  for (int i = 0; i < 100; ++i) EXPECT_EQ(values[static_cast<size_t>(i)], i + 1);
  EXPECT_TRUE(wait(busy, 1, 0s).ready.empty());
  gate.open();
  get(busy, kPatience);
}

TEST(Task, WhyItWaitsNamesTheHolder) {
  Gate gate;
  auto holder = remote({.resources = {.cpus = 2}, .name = "holder"}, pass_gate, gate.path(), 1);
  auto waiting = remote({.name = "waiter"}, add, 1, 1);
  auto until = Clock::now() + kPatience;
  while (why_waits(holder).find("runs in") == std::string::npos && Clock::now() < until) {
  }
  EXPECT_EQ(why_waits(waiting),
            "task 'waiter' waits for 1 CPU (0 of 2 free); held by task 'holder' (2 CPU)");
  Error error = error_of([&] { get(waiting, 1ms); });
  EXPECT_EQ(error.kind(), ErrorKind::kTimeout);
  EXPECT_THAT(error.what(), HasSubstr("held by task 'holder'"));
  gate.open();
  EXPECT_EQ(get(waiting, kPatience), 2);
  EXPECT_EQ(why_waits(waiting), "the value is there");
}

// Runs until the next of its kind has begun, so that one of the two CPUs is always busy; or for a
// while, if the next one is held back.
void overlap_with_next(const std::string& folder, int number) {
  std::ofstream(folder + "/" + std::to_string(number)) << "begun";
  std::string next = folder + "/" + std::to_string(number + 1);
  for (auto until = Clock::now() + 100ms; Clock::now() < until;) {
    std::this_thread::sleep_for(1ms);
    if (::access(next.c_str(), F_OK) == 0) return;
  }
}

TEST(Task, LargeRequestsAreNotStarvedBySmallOnes) {
  // There are always small tasks that could start; the large one comes only if they are held back.
  constexpr int kSmall = 500;
  TemporaryFolder folder;
  std::vector<ObjectRef<void>> small;
  int begun = 0;
  auto renew = [&] {
    while (small.size() < 6) small.push_back(remote(overlap_with_next, folder.path(), begun++));
  };
  renew();
  auto large = remote({.resources = {.cpus = 2}}, add, 1, 2);
  while (begun < kSmall && wait(std::vector{large}, 1, 0s).ready.empty()) {
    small = wait(small, 1, kPatience).not_ready;
    renew();
  }
  EXPECT_LT(begun, kSmall);
  EXPECT_EQ(get(large, kPatience), 3);
  get(small, kPatience);
}

TEST(Task, ManyShortTasksBehindALongOneAreNotHeldUp) {
  for (int i = 0; i < 300; ++i) get(remote(add, i, i));  // known to be short from here on
  Gate gate;
  std::vector<ObjectRef<int>> sums;
  auto add_or_wait = [](const std::string& gate, int i) {
    return gate.empty() ? i : pass_gate(gate, i);
  };
  for (int i = 0; i < 300; ++i) get(remote(add_or_wait, std::string(), i));
  auto slow = remote(add_or_wait, gate.path(), -1);
  for (int i = 0; i < 200; ++i) sums.push_back(remote(add_or_wait, std::string(), i));
  auto values = get(sums, kPatience);  // while the slow one still runs
  EXPECT_EQ(values[199], 199);
  gate.open();
  EXPECT_EQ(get(slow, kPatience), -1);
}

TEST(Task, WaitReturnsWhatIsReady) {
  Gate gate;
  auto slow = remote(pass_gate, gate.path(), 1);
  auto quick = remote(add, 1, 1);
  auto result = wait(std::vector{slow, quick}, 1, kPatience);
  ASSERT_EQ(result.ready.size(), 1u);
  EXPECT_EQ(result.ready[0].id(), quick.id());
  EXPECT_EQ(result.not_ready[0].id(), slow.id());
  EXPECT_EQ(wait(std::vector{slow}, 1, 1ms).ready.size(), 0u);
  gate.open();
  EXPECT_EQ(wait(std::vector{slow, quick}, 2, kPatience).ready.size(), 2u);
  EXPECT_EQ(error_of([&] { wait(std::vector{slow}, 2); }).kind(), ErrorKind::kInvalidArgument);
}

TEST(Task, CancelOfOneThatWaits) {
  Gate gate;
  auto slow = remote(pass_gate, gate.path(), 1);
  auto waiting = remote({.name = "never"}, add, slow, 1);
  cancel(waiting);
  Error error = error_of([&] { get(waiting, kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kCancelled);
  EXPECT_THAT(error.what(), HasSubstr("task 'never' was cancelled"));
  gate.open();
  EXPECT_EQ(get(slow, kPatience), 1);
}

TEST(Task, CancelOfOneThatRunsIsSeenInIt) {
  Gate started, seen;
  auto ref = remote(
      [](const std::string& started, const std::string& seen) {
        std::ofstream(started) << "x";
        auto until = Clock::now() + kPatience;
        while (!is_cancelled() && Clock::now() < until) std::this_thread::sleep_for(1ms);
        if (is_cancelled()) std::ofstream(seen) << "x";
      },
      started.path(), seen.path());
  wait_for_file(started.path());
  cancel(ref);
  EXPECT_EQ(error_of([&] { get(ref, kPatience); }).kind(), ErrorKind::kCancelled);
  wait_for_file(seen.path());
}

TEST(Task, CancelOfOneThatWaitsForAnotherEndsTheWait) {
  Gate started, seen, never;
  auto ref = remote(
      [](const std::string& started, const std::string& seen, const std::string& never) {
        auto inner = remote(pass_gate, never, 1);
        std::ofstream(started) << "x";
        try {
          get(inner);
        } catch (const Error& error) {
          if (error.kind() == ErrorKind::kCancelled) std::ofstream(seen) << "x";
        }
      },
      started.path(), seen.path(), never.path());
  wait_for_file(started.path());
  cancel(ref);
  EXPECT_EQ(error_of([&] { get(ref, kPatience); }).kind(), ErrorKind::kCancelled);
  wait_for_file(seen.path());
  never.open();
}

TEST(Task, CancelWithForceKillsTheProcessAndItsChildrenDoNotStart) {
  auto ref = remote([] {
    std::vector<ObjectRef<int>> children;
    for (int i = 0; i < 3; ++i) {
      children.push_back(remote([] {
        std::this_thread::sleep_for(kPatience);
        return 1;
      }));
    }
    get(children);
  });
  auto until = Clock::now() + kPatience;
  while (why_waits(ref).find("runs in") == std::string::npos && Clock::now() < until) {
  }
  cancel(ref, {.force = true});
  EXPECT_EQ(error_of([&] { get(ref, kPatience); }).kind(), ErrorKind::kCancelled);
  // Both CPUs are free again.
  EXPECT_EQ(get(remote({.resources = {.cpus = 2}}, add, 1, 2), kPatience), 3);
}

TEST(Task, CancelOfOneThatIsDoneChangesNothing) {
  auto ref = remote(add, 1, 1);
  EXPECT_EQ(get(ref), 2);
  cancel(ref);
  EXPECT_EQ(get(ref), 2);
}

TEST(Task, ContextTellsWhereItRuns) {
  EXPECT_EQ(get_runtime_context().process, "driver");
  auto name = get(remote({.name = "me"}, [] {
    auto context = get_runtime_context();
    return context.process + "/" + context.task + "/" + std::to_string(context.attempt);
  }));
  EXPECT_THAT(name, testing::MatchesRegex("worker-[0-9]+/me/1"));
}

TEST(Task, ManyThreadsMaySubmit) {
  std::atomic<int> sum{0};
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&sum, t] {
      for (int i = 0; i < 200; ++i) sum += get(remote(add, t, i));
    });
  }
  for (auto& thread : threads) thread.join();
  EXPECT_EQ(sum, 4 * 199 * 200 / 2 + 200 * 6);
}

TEST(Task, ThreadsOfATaskMaySubmitToo) {
  auto total = get(remote([] {
                     std::atomic<int> sum{0};
                     std::vector<std::thread> threads;
                     for (int t = 0; t < 2; ++t) {
                       threads.emplace_back([&] {
                         for (int i = 0; i < 10; ++i)
                           sum += get(remote({.resources = {.cpus = 0}}, add, i, 1));
                       });
                     }
                     for (auto& thread : threads) thread.join();
                     return sum.load();
                   }),
                   kPatience);
  EXPECT_EQ(total, 110);
}

TEST(Task, CancelIsSeenAfterALongWaitInTheTask) {
  Gate started, seen, inner;
  auto ref = remote(
      [](const std::string& started, const std::string& seen, const std::string& inner) {
        get(remote(pass_gate, inner, 1));
        std::ofstream(started) << "x";
        auto until = Clock::now() + kPatience;
        while (!is_cancelled() && Clock::now() < until) std::this_thread::sleep_for(1ms);
        if (is_cancelled()) std::ofstream(seen) << "x";
      },
      started.path(), seen.path(), inner.path());
  std::this_thread::sleep_for(300ms);  // long enough for the worker's helper to go to sleep
  inner.open();
  wait_for_file(started.path());
  cancel(ref);
  wait_for_file(seen.path());
}

TEST(Task, TwoHandlesOfOneObjectShareTheAnswer) {
  Gate gate;
  auto ref = remote(pass_gate, gate.path(), 7);
  wait({ref}, 1, 1ms);
  auto again = get(put(std::vector{ref}));
  std::thread opener([&] { gate.open(); });
  EXPECT_EQ(get({again[0], ref}, kPatience), (std::vector<int>{7, 7}));
  opener.join();
}

TEST(Task, AVeryLongChainThatWaitsCanBeExplained) {
  Gate gate;
  auto ref = remote(pass_gate, gate.path(), 0);
  for (int i = 0; i < 20'000; ++i) ref = remote(add, ref, 1);
  EXPECT_THAT(why_waits(ref), HasSubstr("another task"));
  gate.open();
  EXPECT_EQ(get(ref, kPatience), 20'000);
}

TEST(Task, AnErrorOfMantasOwnTypeIsRetriedToo) {
  auto ref = remote({.max_retries = 2, .retry_exceptions = true}, [] {
    int attempt = get_runtime_context().attempt;
    if (attempt < 3) throw Error(ErrorKind::kIo, "disk is away");
    return attempt;
  });
  EXPECT_EQ(get(ref, kPatience), 3);
}

TEST(Task, ATimeoutInsideATaskIsNotTheCallersTimeout) {
  auto ref = remote([]() -> int { throw Error(ErrorKind::kTimeout, "inner deadline"); });
  Error error = error_of([&] { get(ref, kPatience); });
  EXPECT_EQ(error.kind(), ErrorKind::kUserCode);
  EXPECT_THAT(error.what(), HasSubstr("inner deadline"));
}

TEST(Task, AForcedCancelHitsNoOtherTask) {
  for (int i = 0; i < 200; ++i) get(remote(add, i, i));  // short ones are sent ahead from here on
  std::vector<ObjectRef<int>> wanted, unwanted;
  for (int i = 0; i < 400; ++i) {
    auto ref = remote({.max_retries = 0}, add, i, 0);
    if (i % 8 == 0) {
      cancel(ref, {.force = true});
    } else {
      wanted.push_back(ref);
    }
  }
  for (const auto& ref : wanted) EXPECT_NO_THROW(get(ref, kPatience));
}

TEST(Task, AFlowOfShortTasksDoesNotStarveALargerOne) {
  for (int i = 0; i < 200; ++i) get(remote(add, i, i));
  std::atomic<bool> stop{false};
  std::thread flow([&] {
    std::vector<ObjectRef<int>> refs;
    while (!stop) {
      for (int i = 0; i < 100; ++i) refs.push_back(remote(add, i, 0));
      if (refs.size() > 500) {
        get(refs[refs.size() - 300]);
        refs.erase(refs.begin(), refs.end() - 300);
      }
    }
  });
  EXPECT_EQ(get(remote({.resources = {.cpus = 2}}, add, 1, 2), kPatience), 3);
  stop = true;
  flow.join();
}

TEST(Task, AvailableResourcesAreThoseThatAreFree) {
  Gate gate, started;
  auto ref = remote(
      [](const std::string& started, const std::string& gate) {
        std::ofstream(started) << "x";
        wait_for_file(gate);
      },
      started.path(), gate.path());
  wait_for_file(started.path());
  EXPECT_EQ(available_resources().cpus, 1);
  gate.open();
  get(ref, kPatience);
  EXPECT_EQ(available_resources().cpus, 2);
}

// Starts a task without waiting for it, and stays until the gate opens.
int start_and_forget(const std::string& parent_gate, const std::string& child_gate,
                     const std::string& begun, const std::string& marks) {
  remote(
      {.resources = {.cpus = 0}},
      [](const std::string& gate, const std::string& begun, const std::string& path) {
        std::ofstream(begun, std::ios::app) << "x" << std::flush;
        wait_for_file(gate);
        std::ofstream(path, std::ios::app) << "x" << std::flush;
      },
      child_gate, begun, marks);
  wait_for_file(parent_gate);
  return ::getpid();
}

TEST(Task, WhatATaskStartedGoesOnWhenItsIdleWorkerIsSentHome) {
  Gate parents, children, begun, marks;
  std::vector<ObjectRef<int>> refs;
  for (int i = 0; i < 12; ++i) {
    refs.push_back(remote({.resources = {.cpus = 0}}, start_and_forget, parents.path(),
                          children.path(), begun.path(), marks.path()));
  }
  auto until = Clock::now() + kPatience;
  auto wait_for_twelve = [&](const Gate& file) {
    std::string text;
    while (text.size() < 12 && Clock::now() < until) {
      std::ifstream in(file.path());
      text.assign(std::istreambuf_iterator<char>(in), {});
    }
    return text;
  };
  // Each child runs in its own process before any parent ends: no child can take a parent's
  // process.
  EXPECT_EQ(wait_for_twelve(begun), std::string(12, 'x'));
  parents.open();
  auto pids = get(refs, kPatience);
  auto gone = [&] {
    return std::count_if(pids.begin(), pids.end(), [](int pid) { return ::kill(pid, 0) != 0; });
  };
  while (gone() < 10 && Clock::now() < until) std::this_thread::sleep_for(1ms);
  EXPECT_GE(gone(), 10);  // the pool keeps one process per CPU
  children.open();
  EXPECT_EQ(wait_for_twelve(marks), std::string(12, 'x'));
}

}  // namespace
}  // namespace manta
