// Measures the runtime over several hosts, as bench/ray_hosts.py measures Ray; started by on_hosts.
// Prints one JSON object, last.
//   hosts_bench calls     2 hosts: tasks on the other one, and what they give
//   hosts_bench objects   2 hosts: only what they give
//   hosts_bench join      4 hosts: how long three agents take to join, and to refuse the impossible
//   hosts_bench losses    2 hosts: when the driver knows that something on the other one is lost
//   hosts_bench reading heavy|light auto|always|never
//                         2 hosts: rows of an epoch for a worker on each, from CSV or Parquet

#include <arrow/api.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "bench_clock.h"
#include "call_rate.h"
#include "manta/base/json.h"

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr int kObjects = 8;  // The numbers of ray_hosts.py.
constexpr int64_t kObjectValues = 32'000'000;

const Labels kOther = {{"node", "n1"}};

void no_op() {}

struct Idle {
  pid_t pid() { return ::getpid(); }
  void stay() { std::this_thread::sleep_for(60s); }
};

std::shared_ptr<arrow::Table> make_values(int seed) {
  arrow::DoubleBuilder builder;
  std::vector<double> values(kObjectValues, seed + 0.5);
  if (!builder.AppendValues(values).ok()) std::abort();
  return arrow::Table::Make(arrow::schema({arrow::field("x", arrow::float64())}),
                            {builder.Finish().ValueOrDie()});
}

// Each is there when it is asked for, and is got once.
Json object_rates() {
  Json rates = Json::array();
  for (int i = 0; i < kObjects; ++i) {
    auto ref = remote(TaskOptions{.labels = kOther}, make_values, i);
    wait(std::vector{ref}, 1, 60s);
    double begin = now_s();
    auto table = get(ref);
    auto chunk = std::static_pointer_cast<arrow::DoubleArray>(table->column(0)->chunk(0));
    double value = chunk->Value(kObjectValues - 1);
    rates.push_back(8e-9 * kObjectValues / (now_s() - begin));
    if (value != i + 0.5) std::abort();
  }
  return rates;
}

Json measure_calls() {
  auto call = [] { return remote(TaskOptions{.labels = kOther}, no_op); };
  Json figures;
  figures["remote_tasks_sync_per_s"] = per_second(100, [&] {
    for (int i = 0; i < 100; ++i) get(call());
  });
  figures["remote_tasks_async_per_s"] = per_second(1000, [&] {
    std::vector<ObjectRef<void>> refs;
    for (int i = 0; i < 1000; ++i) refs.push_back(call());
    get(refs);
  });
  figures["remote_object_gb_per_s"] = object_rates();
  return figures;
}

void wait_for_nodes(size_t count) {
  for (double until = now_s() + 60; nodes().size() != count; std::this_thread::sleep_for(1ms)) {
    if (now_s() > until) throw Error(ErrorKind::kTimeout, "the nodes are not there after 60 s");
  }
}

Json measure_join(double begin) {
  wait_for_nodes(4);
  Json figures = {{"join_3_agents_s", now_s() - begin}};
  begin = now_s();
  try {
    auto one = actor<Idle>(ActorOptions{.resources = {.cpus = 50}});
    get(one.call<&Idle::pid>());
    throw std::logic_error("50 CPUs on a node are impossible");
  } catch (const Error&) {
    figures["refuse_impossible_s"] = now_s() - begin;
  }
  return figures;
}

// Until a call that is under way there has failed.
template <class Disturb>
double seconds_until_seen(Disturb disturb) {
  wait_for_nodes(2);
  auto there = actor<Idle>(ActorOptions{.labels = kOther});
  pid_t pid = get(there.call<&Idle::pid>());
  auto call = there.call<&Idle::stay>();
  std::this_thread::sleep_for(200ms);
  double begin = now_s();
  disturb(pid);
  try {
    get(call);
    throw std::logic_error("the call has returned");
  } catch (const Error&) {
    return now_s() - begin;
  }
}

Json measure_losses() {
  auto tell = [](const char* what) {
    return [what](pid_t) { std::cout << "do " << what << " 1" << std::endl; };
  };
  Json killed = Json::array(), crashed = Json::array();
  for (int i = 0; i < 5; ++i) {
    killed.push_back(seconds_until_seen([](pid_t pid) { ::kill(pid, SIGKILL); }));
  }
  for (int i = 0; i < 3; ++i) {
    crashed.push_back(seconds_until_seen(tell("crash")));
    // The node is replaced when somebody needs it.
    get(remote(TaskOptions{.labels = kOther}, no_op));
  }
  double cut = seconds_until_seen(tell("cut"));
  return {
      {"see_killed_process_s", killed}, {"see_crashed_host_s", crashed}, {"see_cut_host_s", cut}};
}

void read_epochs(const Json& config) {
  auto shard = train::get_dataset_shard("train");
  for (int64_t epoch = 0; epoch < config.at("epochs"); ++epoch) {
    double begin = now_s();
    int64_t rows = 0;
    for (const auto& batch : shard.iter_batches({.global_batch_size = 4096}))
      rows += batch->num_rows();
    train::report({{"seconds", now_s() - begin}, {"rows", rows}});
  }
}

// A row has ten numbers: CSV takes much longer to decode than Parquet.
Json measure_reading(const std::string& weight, const std::string& split) {
  constexpr int64_t kRows = 800'000;
  std::string folder = std::filesystem::temp_directory_path() / "manta-hosts-bench-XXXXXX";
  if (!::mkdtemp(folder.data())) throw Error(ErrorKind::kIo, "no folder for the rows");
  Dataset numbers = data::range(kRows);
  for (int i = 1; i < 10; ++i)
    numbers = numbers.with_column("x" + std::to_string(i), col("id") * (0.123456789 * i));
  bool is_heavy = weight == "heavy";
  is_heavy ? numbers.write_csv(folder + "/rows") : numbers.write_parquet(folder + "/rows");
  ScalingConfig scaling{.num_workers = 2, .placement_strategy = Placement::kStrictSpread};
  if (split == "always") scaling.split_reading = SplitReading::kAlways;
  if (split == "never") scaling.split_reading = SplitReading::kNever;
  DataParallelTrainer trainer(
      {.train_loop_per_worker = read_epochs,
       .train_loop_config = {{"epochs", 6}},
       .scaling_config = scaling,
       .run_config = {.name = "reading", .storage_path = folder, .verbose = 0},
       .datasets = {{"train", is_heavy ? data::read_csv(folder + "/rows")
                                       : data::read_parquet(folder + "/rows")}}});
  Result result = trainer.fit();
  std::filesystem::remove_all(folder);
  Json rates = Json::array();
  for (size_t i = 1; i < result.metrics_history.size(); ++i)  // the first one opens files
    rates.push_back(kRows / result.metrics_history[i].at("seconds").get<double>());
  return {{"rows_per_s", rates}};
}

}  // namespace

int main(int argc, char** argv) {
  double begin = now_s();
  std::string what;
  try {
    manta::init(argc, argv, {.resources = {.cpus = 2}});
    CLI::App app("Measures the runtime over several hosts");
    int64_t start_ns = 0;
    app.add_option("what", what)
        ->required()
        ->check(CLI::IsMember({"calls", "objects", "join", "losses", "reading"}));
    std::string weight = "light";
    std::string split = "auto";
    app.add_option("weight", weight, "of reading")->check(CLI::IsMember({"heavy", "light"}));
    app.add_option("split", split, "of reading")->check(CLI::IsMember({"auto", "always", "never"}));
    app.add_option("--start-ns", start_ns, "not needed here");
    CLI11_PARSE(app, argc, argv);
    Json figures;
    if (what == "calls") {
      figures = measure_calls();
    } else if (what == "objects") {
      figures["remote_object_gb_per_s"] = object_rates();
    } else if (what == "join") {
      figures = measure_join(begin);
    } else if (what == "reading") {
      figures = measure_reading(weight, split);
    } else {
      figures = measure_losses();
    }
    std::cout << figures.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "hosts_bench " << what << ": " << error.what() << std::endl;
    return 1;
  }
}
