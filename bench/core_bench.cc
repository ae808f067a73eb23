// Measures the runtime as bench/ray_core.py measures Ray: prints one JSON object, last.
//   core_bench --start-ns <CLOCK_MONOTONIC when this process was spawned>
//   core_bench --idle-only          only the memory of an idle run, and its first task

#include <arrow/api.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <thread>
#include <vector>

#include "bench_clock.h"
#include "call_rate.h"
#include "manta/base/json.h"
#include "tree_pss.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

void no_op() {}

struct Idle {
  void no_op() {}
};

constexpr int kStarts = 3;  // The numbers of ray_core.py.
constexpr int kActors = 5;
constexpr int kTables = 10;
constexpr int64_t kTableRows = 1'250'000;  // Times 10 columns of 8 bytes: 100 MB.

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

// Submission until result of the first task, 3 s after the runtime was initialised: no worker
// process has been started.
Json first_tasks_warm_ms(int argc, char** argv) {
  Json times = Json::array();
  for (int i = 0; i < kStarts; ++i) {
    if (i > 0) {
      manta::shutdown();
      manta::init(argc, argv, {.resources = {.cpus = 2}});
      std::this_thread::sleep_for(3s);
    }
    double begin = now_s();
    get(remote(no_op));
    times.push_back((now_s() - begin) * 1e3);
  }
  return times;
}

// Creation until the first call's result, of actors that stay: each is a new process.
Json actor_starts_ms() {
  std::vector<ActorHandle<Idle>> actors;
  Json times = Json::array();
  for (int i = 0; i < kActors; ++i) {
    double begin = now_s();
    actors.push_back(actor<Idle>());
    get(actors.back().call<&Idle::no_op>());
    times.push_back((now_s() - begin) * 1e3);
  }
  return times;
}

std::shared_ptr<arrow::Table> make_table(int seed) {
  std::vector<std::shared_ptr<arrow::Field>> fields;
  std::vector<std::shared_ptr<arrow::Array>> columns;
  for (int c = 0; c < 10; ++c) {
    arrow::DoubleBuilder builder;
    std::vector<double> values(kTableRows, seed + 1.5 * c);
    if (!builder.AppendValues(values).ok()) std::abort();
    fields.push_back(arrow::field("c" + std::to_string(c), arrow::float64()));
    columns.push_back(builder.Finish().ValueOrDie());
  }
  return arrow::Table::Make(arrow::schema(fields), columns);
}

// Every table is the result of another task, is ready when the get begins, and is got only once, so
// that a reference cannot reuse an earlier get. Its last value is read.
Json get_tables_us() {
  std::vector<ObjectRef<std::shared_ptr<arrow::Table>>> refs;
  for (int i = 0; i < kTables; ++i) refs.push_back(remote(make_table, i));
  wait(refs, refs.size(), 60s);
  Json times = Json::array();
  for (int i = 0; i < kTables; ++i) {
    double begin = now_s();
    auto table = get(refs[static_cast<size_t>(i)]);
    auto last = std::static_pointer_cast<arrow::DoubleArray>(table->column(9)->chunk(0));
    double value = last->Value(kTableRows - 1);
    times.push_back((now_s() - begin) * 1e6);
    if (value != i + 13.5) std::abort();
  }
  return times;
}

// Measures in a separate run, because this one has had tasks.
Json idle_figures(const char* program) {
  FILE* pipe = ::popen((std::string(program) + " --idle-only").c_str(), "r");
  char text[1000] = {};
  if (!pipe || !std::fgets(text, sizeof(text), pipe) || ::pclose(pipe) != 0) {
    std::cerr << "core_bench --idle-only failed\n";
    std::exit(1);
  }
  return Json::parse(text);
}

}  // namespace

int main(int argc, char** argv) {
  manta::init(argc, argv, {.resources = {.cpus = 2}});
  // Parses arguments by hand: a library for it would be part of the first measurement.
  std::string what = argc > 1 ? argv[1] : "";
  if (what == "--idle-only" && argc == 2) {
    std::this_thread::sleep_for(3s);
    double pss = tree_pss_mb();
    Json warm = first_tasks_warm_ms(argc, argv);
    std::cout << Json{{"idle_pss_mb", pss}, {"first_task_warm_ms", warm}}.dump() << std::endl;
    return 0;
  }
  int64_t start = what == "--start-ns" && argc == 3 ? std::atoll(argv[2]) : 0;
  if (start == 0) {
    bool help = what == "--help";
    (help ? std::cout : std::cerr) << "usage: core_bench --start-ns N | --idle-only\n";
    return help ? 0 : 2;
  }
  get(remote(no_op));
  Json figures = {{"first_task_cold_ms", since_s(start) * 1e3}};
  figures["actor_start_ms"] = actor_starts_ms();
  figures["tasks_sync_per_s"] = sync_per_second([] { return remote(no_op); });
  figures["tasks_async_per_s"] = async_per_second([] { return remote(no_op); });
  auto idle = actor<Idle>();
  figures["actor_calls_sync_per_s"] = sync_per_second([&] { return idle.call<&Idle::no_op>(); });
  figures["actor_calls_async_per_s"] = async_per_second([&] { return idle.call<&Idle::no_op>(); });
  figures["get_100mb_table_us"] = get_tables_us();
  figures.update(idle_figures(argv[0]));
  std::cout << figures.dump() << std::endl;
}
