// The runtime under load and under fire.

#include <gtest/gtest.h>
#include <manta/base/error_internal.h>
#include <manta/manta.h>
#include <signal.h>

#include <algorithm>
#include <atomic>
#include <random>
#include <set>
#include <thread>

#include "process_tree.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

struct Usage {
  size_t processes;
  int files, threads, zygote_files;
  bool operator<=(const Usage& other) const {
    return processes <= other.processes && files <= other.files && threads <= other.threads &&
           zygote_files <= other.zygote_files;
  }
  std::string text() const {
    return str(processes, " processes, ", files, " files, ", threads, " threads, ", zygote_files,
               " files of the zygote");
  }
};

Usage usage() {
  auto processes = descendants(::getpid());
  return {processes.size(), count_open_files(::getpid()), count_threads_of(::getpid()),
          processes.empty() ? 0 : count_open_files(processes.front())};
}

int twice(int x) { return 2 * x; }
size_t length(const std::string& text) { return text.size(); }

struct Adder {
  int sum = 0;
  int add(int x) { return sum += x; }
};

void run_actors(int count) {
  std::vector<ActorHandle<Adder>> actors;
  for (int i = 0; i < count; ++i) actors.push_back(actor<Adder>());
  std::vector<ObjectRef<int>> sums;
  for (int i = 0; i < 3; ++i) {
    for (auto& one : actors) sums.push_back(one.call<&Adder::add>(1));
  }
  auto values = get(sums, 60s);
  for (size_t i = 0; i < values.size(); ++i) EXPECT_EQ(values[i], 1 + static_cast<int>(i) / count);
}

TEST(Stress, TenThousandTasksAndAHundredActorsLeaveNothing) {
  // After this, the pool has all processes that it keeps.
  std::vector<ObjectRef<int>> warm;
  for (int i = 0; i < 100; ++i) warm.push_back(remote(twice, i));
  get(warm);
  warm.clear();
  run_actors(2);
  Usage before = usage();
  ASSERT_TRUE(eventually([&] {
    std::this_thread::sleep_for(50ms);
    Usage now = usage();
    bool settled = now <= before && before <= now;
    before = now;
    return settled;
  }));

  {
    std::vector<ObjectRef<int>> refs;
    for (int i = 0; i < 10'000; ++i) refs.push_back(remote(twice, i));
    auto values = get(refs, 60s);
    for (int i = 0; i < 10'000; ++i) ASSERT_EQ(values[static_cast<size_t>(i)], 2 * i);
    std::vector<ObjectRef<size_t>> sizes;
    for (int i = 0; i < 200; ++i)
      sizes.push_back(remote(length, put(std::string(200'000 + static_cast<size_t>(i), 'x'))));
    auto lengths = get(sizes, 60s);
    for (size_t i = 0; i < 200; ++i) ASSERT_EQ(lengths[i], 200'000 + i);
  }
  run_actors(100);

  EXPECT_TRUE(eventually([&] { return usage() <= before; }))
      << "before: " << before.text() << "; after: " << usage().text();
}

// Sums a slice; large enough arguments and results to use shared memory now and then.
std::vector<int64_t> work(int64_t seed, const std::vector<int64_t>& data) {
  std::vector<int64_t> result(data.size());
  for (size_t i = 0; i < data.size(); ++i) result[i] = data[i] * seed;
  return result;
}

int64_t nested(int64_t seed) {
  int64_t sum = 0;
  for (auto value : get(remote(work, seed, std::vector<int64_t>{1, 2, 3}))) sum += value;
  return sum;
}

std::atomic<int> results{0};

void run_thousand_tasks() {
  std::vector<int64_t> small{1, 2, 3};
  std::vector<int64_t> large(20'000);
  for (size_t i = 0; i < large.size(); ++i) large[i] = static_cast<int64_t>(i);
  auto shared = put(large);
  std::vector<ObjectRef<std::vector<int64_t>>> plain;
  std::vector<ObjectRef<int64_t>> nests;
  // Enough retries that only a real error uses them up.
  TaskOptions options;
  options.max_retries = 10'000;
  for (int64_t i = 0; i < 1000; ++i) {
    if (i % 10 == 9) {
      nests.push_back(remote(options, nested, i));
    } else if (i % 10 == 5) {
      plain.push_back(remote(options, work, i, shared));
    } else {
      plain.push_back(remote(options, work, i, small));
    }
  }
  size_t p = 0, n = 0;
  for (int64_t i = 0; i < 1000; ++i, ++results) {
    if (i % 10 == 9) {
      try {
        EXPECT_EQ(get(nests[n++], 120s), 6 * i);
      } catch (const Error& error) {
        // Its inner task has the default number of retries, and may use them up.
        EXPECT_EQ(error.kind(), ErrorKind::kWorkerLost) << error.what();
      }
    } else {
      auto value = get(plain[p++], 120s);
      const auto& data = i % 10 == 5 ? large : small;
      ASSERT_EQ(value.size(), data.size());
      for (size_t k = 0; k < data.size(); k += 997) ASSERT_EQ(value[k], data[k] * i);
    }
  }
}

TEST(Stress, AThousandTasksWhileWorkersAreKilled) {
  auto before = descendants(::getpid());
  pid_t zygote = before.empty() ? 0 : before.front();
  std::atomic<bool> done{false};
  std::atomic<int> kills{0};
  // At most one kill for each result, so that the tasks make progress on a slow machine, too.
  std::thread killer([&] {
    std::mt19937 random(7);
    for (int seen = -1; !done; seen = results) {
      while (!done && results == seen) std::this_thread::sleep_for(1ms);
      auto processes = descendants(::getpid());
      std::erase(processes, zygote);
      if (kills >= 50 || processes.empty()) continue;
      if (::kill(processes[random() % processes.size()], SIGKILL) == 0) ++kills;
    }
  });
  do {
    run_thousand_tasks();
  } while (kills < 20);
  done = true;
  killer.join();
  EXPECT_EQ(get(remote(twice, 21), 30s), 42);
  // The pool is back to its size: no process too many, and no object left.
  EXPECT_TRUE(eventually([&] { return descendants(::getpid()).size() <= 3; }));
  EXPECT_EQ(cluster_resources().cpus, 2);
  EXPECT_EQ(get(remote({.resources = {.cpus = 2}}, twice, 1), 30s), 2);
}

}  // namespace
}  // namespace manta
