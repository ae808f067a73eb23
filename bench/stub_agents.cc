// A driver with a thousand nodes: agents that are real to the driver, over connections of their
// own, but start no processes. Prints one JSON object, last.
//   stub_agents
//   stub_agents --agents <file>     (started by the above) the agents, as the file says

#include <fcntl.h>
#include <manta/base/names_internal.h>
#include <manta/manta.h>
#include <signal.h>
#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <string>
#include <thread>
#include <vector>

#include "bench_clock.h"
#include "manta/base/error_internal.h"
#include "manta/base/json.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/function.h"
#include "manta/core/message_codec_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/tls_internal.h"
#include "tree_pss.h"

extern char** environ;

using namespace manta;
using namespace std::chrono_literals;

namespace {

constexpr size_t kAgents = 1000;
constexpr size_t kConnecting = 4;  // threads

struct Idle {
  void no_op() {}
};

// ---- The agents, all in one process

class StubAgents {
 public:
  StubAgents(AgentOrder order, std::string folder)
      : order_(std::move(order)), folder_(std::move(folder)), key_(order_.token) {}

  void run() {
    tell("connecting");
    std::vector<std::thread> threads;
    for (size_t t = 0; t < kConnecting; ++t) {
      threads.emplace_back([this, t] {
        for (size_t i = t; i < kAgents; i += kConnecting) join(i);
      });
    }
    auto work = boost::asio::make_work_guard(loop_.context);
    loop_.context.run();
    for (auto& each : threads) each.join();
  }

 private:
  void join(size_t i) {
    auto transport = connect_tls(key_, order_.host, order_.port, Deadline::after(30s));
    std::lock_guard lock(loop_.mutex);
    auto channel = std::make_shared<AsyncChannel>(loop_, std::move(transport), kMaxFrameBody);
    AgentHello hello;
    hello.build_id = program_build_id();
    hello.started_as = order_.started_as;
    hello.node.host = str("stub-", i);
    hello.node.address = str("127.0.0.1:", 1 + i);
    hello.node.total = {.cpus = 1};
    encode_message<FirstWord>(channel->out(), hello);
    auto* raw = channel.get();
    channel->start([this, raw](Frame& frame) { on_frame(*raw, frame); },
                   [this](const std::string&) { loop_.context.stop(); });
    channels_.push_back(std::move(channel));
  }

  void on_frame(AsyncChannel& channel, Frame& frame) {
    ToAgent message = decode_message<ToAgent>(frame);
    if (std::holds_alternative<AgentPing>(message)) {
      encode_message<FromAgent>(channel.out(), AgentPong{});
    } else if (auto* start = std::get_if<AgentStart>(&message)) {
      for (auto& [process, spec] : start->gang) {
        encode_message<FromAgent>(channel.out(), AgentStarted{process, ::getpid()});
        if (++started_ == kAgents) tell("started");
      }
    } else if (std::holds_alternative<AgentEnd>(message)) {
      loop_.context.stop();
    }
  }

  // Writes the time to a file with the event's name, which appears whole.
  void tell(const std::string& event) {
    std::string path = folder_ + "/" + event;
    std::ofstream(path + ".partial") << std::fixed << now_s();
    std::filesystem::rename(path + ".partial", path);
  }

  const AgentOrder order_;
  const std::string folder_;
  const TlsKey key_;
  EventLoop loop_;
  std::vector<std::shared_ptr<AsyncChannel>> channels_;
  size_t started_ = 0;
};

void raise_file_limit() {
  rlimit limit{};
  ::getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  ::setrlimit(RLIMIT_NOFILE, &limit);
}

// ---- The driver

double wait_for_file(const std::string& path) {
  double time = 0;
  for (double until = now_s() + 60; now_s() < until; std::this_thread::sleep_for(1ms)) {
    if (std::ifstream in(path); in >> time) return time;
  }
  throw Error(ErrorKind::kTimeout, str("'", path, "' is not there after 60 s"));
}

double cpu_s() {
  rusage used{};
  ::getrusage(RUSAGE_SELF, &used);
  auto seconds = [](const timeval& t) {
    return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec);
  };
  return seconds(used.ru_utime) + seconds(used.ru_stime);
}

double resident_mb() {
  std::ifstream in("/proc/self/status");
  for (std::string word; in >> word;) {
    double kb = 0;
    if (word == "VmRSS:" && in >> kb) return kb / 1000;
  }
  return 0;
}

Json measure(const std::string& folder) {
  Json figures;
  for (double until = now_s() + 60; nodes().size() != kAgents + 1;) {
    if (now_s() > until) throw Error(ErrorKind::kTimeout, "the agents have not joined after 60 s");
    std::this_thread::sleep_for(1ms);
  }
  figures["join_1000_agents_s"] = now_s() - wait_for_file(folder + "/connecting");
  std::this_thread::sleep_for(2s);
  double used = cpu_s(), begin = now_s();
  std::this_thread::sleep_for(5s);
  figures["idle_1000_agents_cpu_percent"] = 100 * (cpu_s() - used) / (now_s() - begin);
  begin = now_s();
  ActorOptions options{.resources = {.cpus = 1},
                       .placement = Placement::kStrictSpread,
                       .labels = {{"role", "worker"}}};
  auto gang = actor_group<Idle>(std::vector<ActorOptions>(kAgents, options));
  figures["gang_of_1000_s"] = wait_for_file(folder + "/started") - begin;
  figures["driver_of_1000_mb"] = resident_mb();
  return figures;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app("Measures a driver with a thousand nodes, whose agents start no processes");
  std::string order;
  int64_t start_ns = 0;
  app.add_option("--agents", order, "be the agents, as this file says");
  app.add_option("--start-ns", start_ns, "not needed here");
  CLI11_PARSE(app, argc, argv);
  try {
    raise_file_limit();
    if (!order.empty()) {
      std::string file = order, line;
      for (double until = now_s() + 60; !std::getline(std::ifstream(file), line);) {
        if (now_s() > until) throw Error(ErrorKind::kTimeout, "no file after 60 s");
        std::this_thread::sleep_for(1ms);
      }
      StubAgents(AgentOrder::parse(line), std::filesystem::path(file).parent_path()).run();
      return 0;
    }
    TemporaryFolder folder;
    std::string file = folder / "run.join";
    std::string program = "/proc/self/exe", mode = "--agents";
    char* words[] = {program.data(), mode.data(), file.data(), nullptr};
    pid_t agents = 0;
    if (::posix_spawn(&agents, program.c_str(), nullptr, nullptr, words, environ) != 0) return 1;
    std::string cluster = str("join:", kAgents, ";file=", file, ";address=127.0.0.1");
    manta::init(argc, argv, {.resources = {.cpus = 1}, .cluster = cluster});
    Json figures = measure(folder.path());
    manta::shutdown();
    ::kill(agents, SIGKILL);
    ::waitpid(agents, nullptr, 0);
    std::cout << figures.dump() << std::endl;
  } catch (const std::exception& error) {
    std::cerr << "stub_agents: " << error.what() << std::endl;
    return 1;
  }
}
