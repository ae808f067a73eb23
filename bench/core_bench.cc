// Measures the runtime as bench/ray_core.py measures Ray: prints one JSON object, last.
//   core_bench --start-ns <CLOCK_MONOTONIC when this process was spawned>
//   core_bench --idle-only          only the memory of an idle run

#include <arrow/api.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <iostream>
#include <thread>
#include <vector>

#include "tree_pss.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

void no_op() {}

struct Idle {
  void no_op() {}
};

double since_ns(int64_t start) {
  timespec now{};
  ::clock_gettime(CLOCK_MONOTONIC, &now);
  return static_cast<double>(now.tv_sec * 1'000'000'000 + now.tv_nsec - start);
}

// Calls of `batch`, which does `size` of something, per second: warmed up for 1 s, measured for 3
// s.
template <class Batch>
double per_second(int size, Batch batch) {
  for (auto until = Clock::now() + 1s; Clock::now() < until;) batch();
  auto begin = Clock::now();
  double count = 0;
  while (Clock::now() - begin < 3s) {
    batch();
    count += size;
  }
  return count / std::chrono::duration<double>(Clock::now() - begin).count();
}

template <class Submit>
double sync_per_second(Submit submit) {
  return per_second(100, [&] {
    for (int i = 0; i < 100; ++i) get(submit());
  });
}

template <class Submit>
double async_per_second(Submit submit) {
  return per_second(1000, [&] {
    std::vector<ObjectRef<void>> refs;
    for (int i = 0; i < 1000; ++i) refs.push_back(submit());
    get(refs);
  });
}

// The run has been set up and is idle, but no worker has been started: the task needs a new
// process.
double first_task_warm_ms(int argc, char** argv) {
  std::vector<double> times;
  for (int i = 0; i < 9; ++i) {
    manta::shutdown();
    manta::init(argc, argv, {.resources = {.cpus = 2}});
    std::this_thread::sleep_for(200ms);
    auto begin = Clock::now();
    get(remote(no_op));
    times.push_back(std::chrono::duration<double, std::milli>(Clock::now() - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

double get_table_us() {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int c = 0; c < 10; ++c) {
    arrow::DoubleBuilder builder;
    std::vector<double> values(1'250'000, 1.5 * c);
    if (!builder.AppendValues(values).ok()) std::abort();
    fields.push_back(arrow::field("c" + std::to_string(c), arrow::float64()));
    columns.push_back(builder.Finish().ValueOrDie());
  }
  auto ref = put(arrow::Table::Make(arrow::schema(fields), columns));
  std::vector<double> times;
  for (int i = 0; i < 200; ++i) {
    auto begin = Clock::now();
    auto table = get(ref);
    auto end = Clock::now();
    if (table->num_rows() != 1'250'000) std::abort();
    times.push_back(std::chrono::duration<double, std::micro>(end - begin).count());
  }
  std::sort(times.begin(), times.end());
  return times[times.size() / 2];
}

// In a run of its own: this one has had tasks.
double idle_pss_mb(const char* program) {
  FILE* pipe = ::popen((std::string(program) + " --idle-only").c_str(), "r");
  double value = 0;
  if (!pipe || std::fscanf(pipe, "%lf", &value) != 1 || ::pclose(pipe) != 0) {
    std::cerr << "core_bench --idle-only failed\n";
    std::exit(1);
  }
  return value;
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  int64_t start = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::strcmp(argv[i], "--start-ns") == 0 && i + 1 < argc) start = std::atoll(argv[i + 1]);
    if (std::strcmp(argv[i], "--idle-only") == 0) {
      std::this_thread::sleep_for(3s);
      std::cout << tree_pss_mb() << std::endl;
      return 0;
    }
  }
  if (start == 0) {
    std::cerr << "usage: core_bench --start-ns N | --idle-only\n";
    return 2;
  }
  get(remote(no_op));
  double cold = since_ns(start) / 1e6;
  double warm = first_task_warm_ms(argc, argv);
  double tasks_sync = sync_per_second([] { return remote(no_op); });
  double tasks_async = async_per_second([] { return remote(no_op); });
  auto idle = actor<Idle>();
  double calls_sync = sync_per_second([&] { return idle.call<&Idle::no_op>(); });
  double calls_async = async_per_second([&] { return idle.call<&Idle::no_op>(); });
  double table = get_table_us();
  double pss = idle_pss_mb(argv[0]);
  std::cout << "{\"first_task_cold_ms\": " << cold << ", \"first_task_warm_ms\": " << warm
            << ", \"tasks_sync_per_s\": " << tasks_sync
            << ", \"tasks_async_per_s\": " << tasks_async
            << ", \"actor_calls_sync_per_s\": " << calls_sync
            << ", \"actor_calls_async_per_s\": " << calls_async
            << ", \"get_100mb_table_us\": " << table << ", \"idle_pss_mb\": " << pss << "}"
            << std::endl;
}
