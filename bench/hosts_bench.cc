// Measures the runtime over several hosts, as bench/ray_hosts.py measures Ray; started by on_hosts.
// Prints one JSON object, last.
//   hosts_bench calls     2 hosts: tasks on the other one, and what they give
//   hosts_bench objects   2 hosts: only what they give
//   hosts_bench join      4 hosts: how long three agents take to join, and to refuse a gang that no
//                         nodes can hold
//   hosts_bench losses    4 hosts: when the driver knows that something on another one is lost, and
//                         when nothing runs any more on one that is cut off
//   hosts_bench reading heavy|light auto|always|never
//                         2 hosts: rows of an epoch for a worker on each, from CSV or Parquet

#include <arrow/api.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>
#include <signal.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cctype>
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
const Labels kAnyOther = {{"role", "worker"}};

void no_op() {}

struct Idle {
  pid_t pid() { return ::getpid(); }
  std::string host() { return get_runtime_context().node; }
  void stay() { std::this_thread::sleep_for(60s); }
};

std::shared_ptr<arrow::Table> make_values(int seed) {
  arrow::DoubleBuilder builder;
  std::vector<double> values(kObjectValues, seed + 0.5);
  if (!builder.AppendValues(values).ok()) std::abort();
  return arrow::Table::Make(arrow::schema({arrow::field("x", arrow::float64())}),
                            {builder.Finish().ValueOrDie()});
}

// Each object is ready when the get begins, and is got only once.
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
    actor_group<Idle>(std::vector<ActorOptions>(5, {.placement = Placement::kStrictSpread}));
    throw std::logic_error("a gang of 5 on 5 of 4 nodes is impossible");
  } catch (const Error&) {
    figures["refuse_impossible_s"] = now_s() - begin;
  }
  return figures;
}

// A process on another host, and a call of it that is under way.
struct Busy {
  Busy() {
    pid = get(there.call<&Idle::pid>());
    host = get(there.call<&Idle::host>());
    call = there.call<&Idle::stay>();
    std::this_thread::sleep_for(200ms);
  }
  // The seconds from `begin` until the call has failed.
  double seconds_until_seen(double begin) {
    try {
      get(call);
    } catch (const Error&) {
      return now_s() - begin;
    }
    throw std::logic_error("the call has returned");
  }

  ActorHandle<Idle> there = actor<Idle>(ActorOptions{.labels = kAnyOther});
  pid_t pid = 0;
  std::string host;
  ObjectRef<void> call;
};

// This program's processes that run now on this process's host; not the agent that is started there
// instead. The processes of all hosts run on this machine.
class ProcessesOfHost {
 public:
  explicit ProcessesOfHost(pid_t one) : network_(link(std::to_string(one), "ns/net")) {
    for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
      std::string pid = entry.path().filename();
      if (std::isdigit(static_cast<unsigned char>(pid[0])) && is_there(pid)) pids_.push_back(pid);
    }
  }
  bool any() const {
    return std::any_of(pids_.begin(), pids_.end(),
                       [this](const std::string& pid) { return is_there(pid); });
  }

 private:
  static std::string link(const std::string& pid, const std::string& name) {
    std::error_code gone;
    return std::filesystem::read_symlink("/proc/" + pid + "/" + name, gone);
  }
  bool is_there(const std::string& pid) const {
    return link(pid, "ns/net") == network_ && link(pid, "exe") == link("self", "exe");
  }

  const std::string network_;
  std::vector<std::string> pids_;
};

double disturb(const std::string& what, const std::string& host) {
  double begin = now_s();
  std::cout << "do " << what << " " << host.substr(1) << std::endl;  // "n2": 2
  return begin;
}

Json measure_losses() {
  wait_for_nodes(4);
  Json figures;
  auto& killed = figures["see_killed_process_s"] = Json::array();
  for (int i = 0; i < 5; ++i) {
    Busy busy;
    double begin = now_s();
    ::kill(busy.pid, SIGKILL);
    killed.push_back(busy.seconds_until_seen(begin));
  }
  auto& empty = figures["empty_cut_host_s"] = Json::array();
  for (const char* what : {"cut", "cut-from", "cut-to"}) {
    Busy busy;
    ProcessesOfHost processes(busy.pid);
    double begin = disturb(what, busy.host);
    figures[str("see_", what, "_host_s")] = busy.seconds_until_seen(begin);
    while (processes.any()) {
      if (now_s() > begin + 60) throw Error(ErrorKind::kTimeout, "a cut-off host is not empty");
      std::this_thread::sleep_for(10ms);
    }
    empty.push_back(now_s() - begin);
    disturb("heal", busy.host);
  }
  Busy busy;
  figures["see_crashed_host_s"] = busy.seconds_until_seen(disturb("crash", busy.host));
  return figures;
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
  constexpr int64_t kRows = 1'600'000;  // more than a data reader keeps decoded
  // Of a tenth of a second each, in some cases: a median of five said little.
  constexpr int kEpochs = 21;
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
       .train_loop_config = {{"epochs", kEpochs}},
       .scaling_config = scaling,
       .run_config = {.name = "reading", .storage_path = folder, .verbose = 0},
       .datasets = {{"train", is_heavy ? data::read_csv(folder + "/rows")
                                       : data::read_parquet(folder + "/rows")}}});
  Result result = trainer.fit();
  std::filesystem::remove_all(folder);
  Json rates = Json::array();
  for (size_t i = 1; i < result.metrics_history.size(); ++i)  // the first epoch opens files
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
