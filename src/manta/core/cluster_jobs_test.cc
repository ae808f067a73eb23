// The jobs of the drivers of cluster_test.cc. Each driver is a process on its own host.

#include <fcntl.h>
#include <signal.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <memory>
#include <numeric>
#include <set>
#include <thread>

#include "manta/base/error_internal.h"
#include "manta/base/eventually_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/core/actor.h"
#include "manta/core/cluster_job_internal.h"
#include "manta/core/init.h"
#include "manta/core/node.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/core/remote.h"
#include "manta/io/channel_internal.h"

namespace manta {
namespace {

using namespace std::chrono_literals;

constexpr std::chrono::seconds kJobPatience{40};

void expect(bool good, const std::string& what) {
  if (!good) throw Error(ErrorKind::kUserCode, "not so: " + what);
}

std::string here() { return get_runtime_context().node; }

TaskOptions on(const std::string& node) {
  return {.resources = {.cpus = 1}, .labels = {{"node", node}}};
}

struct Resident {
  std::string where() { return here(); }
  std::vector<int> numbers(int count) {
    std::vector<int> result(static_cast<size_t>(count));
    std::iota(result.begin(), result.end(), 0);
    return result;
  }
};

std::vector<int> make_numbers(int count) { return Resident().numbers(count); }
int64_t sum_of(const std::vector<int>& numbers) {
  return std::accumulate(numbers.begin(), numbers.end(), int64_t{0});
}

std::string failure_of(const std::function<void()>& act) {
  try {
    act();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// The agent of the node that a task runs on: its worker's grandparent.
pid_t agent_pid() {
  std::ifstream status("/proc/" + std::to_string(::getppid()) + "/status");
  for (std::string line; std::getline(status, line);) {
    if (line.starts_with("PPid:")) return std::atoi(line.c_str() + 5);
  }
  return -1;
}

void hello() {
  auto all = nodes();
  expect(all.size() == 4, str(all.size(), " nodes"));
  expect(cluster_resources().cpus == 2 + 3 * all[1].total.cpus, "the sum of all nodes");
  // Tasks on every node.
  for (const Node& node : all) {
    expect(get(remote(on(node.host), here), kJobPatience) == node.host, "a task on " + node.host);
  }
  std::set<std::string> seen;
  std::vector<ObjectRef<std::string>> spread;
  for (int i = 0; i < 4; ++i) {
    spread.push_back(remote({.placement = Placement::kSpread}, [] {
      std::this_thread::sleep_for(200ms);  // so that they are all at work at once
      return here();
    }));
  }
  for (auto& each : spread) seen.insert(get(each, kJobPatience));
  expect(seen.size() == 4, str("tasks spread over ", seen.size(), " nodes"));
  // An actor on each.
  std::vector<ActorOptions> options(
      4, ActorOptions{.resources = {.cpus = 1}, .placement = Placement::kStrictSpread});
  auto actors = actor_group<Resident>(options);
  seen.clear();
  for (auto& each : actors) seen.insert(get(each.call<&Resident::where>(), kJobPatience));
  expect(seen.size() == 4, str("actors on ", seen.size(), " nodes"));
  actors.clear();
  options.resize(5, options.front());
  std::string refused = failure_of([&] { actor_group<Resident>(options); });
  expect(refused.find("5 times 1 CPU, each on another node (STRICT_SPREAD); there are 4 nodes") !=
             std::string::npos,
         "the refusal: " + refused);
}

void objects() {
  constexpr int kCount = 2'000'000;
  constexpr int64_t kSum = int64_t{kCount} * (kCount - 1) / 2;
  // Values move between nodes, to the driver, and from it.
  auto made = remote(on("n1"), make_numbers, kCount);
  for (const char* node : {"n1", "n2", "n2", "n0"}) {
    expect(get(remote(on(node), sum_of, made), kJobPatience) == kSum, str("the sum on ", node));
  }
  expect(sum_of(get(made, kJobPatience)) == kSum, "the sum in the driver");
  auto own = put(make_numbers(kCount));
  for (const char* node : {"n1", "n2", "n0"}) {
    expect(get(remote(on(node), sum_of, own), kJobPatience) == kSum, str("the driver's on ", node));
  }
  expect(get(remote(on("n1"), sum_of, make_numbers(kCount)), kJobPatience) == kSum,
         "a large argument");
  // Many at once: one transfer to each node.
  std::vector<ObjectRef<int64_t>> sums;
  auto other = remote(on("n2"), make_numbers, kCount);
  for (int i = 0; i < 20; ++i) sums.push_back(remote(on(i % 2 ? "n1" : "n0"), sum_of, other));
  for (auto& each : sums) expect(get(each, kJobPatience) == kSum, "one of many sums");
  // Inside of a task of another node.
  auto nested = remote(on("n1"), [] {
    auto there = remote({.labels = {{"node", "n2"}}}, make_numbers, 1'000'000);
    return sum_of(get(there, kJobPatience));
  });
  expect(get(nested, kJobPatience) == int64_t{1'000'000} * 999'999 / 2, "a nested task's object");
  // An actor's result; it is freed on all nodes with its last reference.
  auto actor = manta::actor<Resident>(ActorOptions{.labels = {{"node", "n2"}}});
  expect(sum_of(get(actor.call<&Resident::numbers>(kCount), kJobPatience)) == kSum, "an actor's");
  made = {};
  own = {};
  other = {};
  sums.clear();
  auto open_memory = [](const std::string& node) {
    return get(remote(on(node),
                      [] {
                        int count = 0;
                        std::string folder = "/proc/" + std::to_string(agent_pid()) + "/fd";
                        for (const auto& entry : std::filesystem::directory_iterator(folder)) {
                          std::error_code error;
                          auto target = std::filesystem::read_symlink(entry.path(), error).string();
                          count += target.find("manta-object") != std::string::npos;
                        }
                        return count;
                      }),
               kJobPatience);
  };
  expect(eventually([&] { return open_memory("n1") == 0 && open_memory("n2") == 0; }),
         "all memory is freed on the nodes");
}

std::string content_of(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

struct Talker {
  int say(const std::string& line) {
    std::cout << line << std::endl;
    return ::getpid();
  }
  // Writes raw bytes, far more than may be on their way at once, and then stops.
  void say_much(int count) {
    std::string bytes(1 << 20, '\0');
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(i * 31);
    for (int i = 0; i < count; ++i)
      expect(std::fwrite(bytes.data(), bytes.size(), 1, stdout) == 1, "");
    std::cout << "the end" << std::flush;
    ::kill(::getpid(), SIGKILL);
  }
};

// Log files that the user names are files of the driver's machine, wherever the process is.
void logs() {
  TemporaryFolder folder;
  auto options = [&](const std::string& node, const std::string& file) {
    return ActorOptions{
        .process_name = "talker", .log_path = folder / file, .labels = {{"node", node}}};
  };
  auto talkers = actor_group<Talker>(
      {options("n0", "0"), options("n1", "1"), options("n2", "2"), options("n1", "another")});
  for (size_t i = 0; i < talkers.size(); ++i) {
    get(talkers[i].call<&Talker::say>(str("I am ", i)), kJobPatience);
  }
  auto says = [&](const std::string& file, const std::string& text) {
    return eventually([&] { return content_of(folder / file) == text; });
  };
  for (const char* file : {"0", "1", "2"}) {
    expect(says(file, str("I am ", file, "\n")), str("the log of ", file));
  }
  expect(says("another", "I am 3\n"), "two of the same name and node");
  struct stat info {};
  expect(::stat((folder / "1").c_str(), &info) == 0 && (info.st_mode & 0777) == 0600,
         "only the user can read it");
  // Its last output is there when its end is known, and the error quotes it.
  constexpr int kMany = 6;
  std::string lost =
      failure_of([&] { get(talkers[1].call<&Talker::say_much>(kMany), kJobPatience); });
  std::string log = content_of(folder / "1");
  expect(log.size() == 7 + (kMany << 20) + 7 && log.ends_with("the end"),
         str("all of it is there: ", log.size(), " bytes"));
  for (size_t i = 0; i < size_t{kMany} << 20; ++i) {
    if (log[7 + i] != static_cast<char>((i % (1 << 20)) * 31)) expect(false, str("byte ", i));
  }
  expect(lost.find("The end of its log " + folder / "1") != std::string::npos, "it says where");
  // Another actor goes on in the same file.
  auto next = manta::actor<Talker>(options("n2", "another"));
  get(next.call<&Talker::say>(std::string("I am new")), kJobPatience);
  expect(says("another", "I am 3\nI am new\n"), "a file that was there");
  // If one log cannot be opened, the others of the gang do not start, either.
  std::filesystem::create_symlink(folder / "2", folder / "link");
  for (const char* file : {"link", "no/folder"}) {
    std::string refused = failure_of([&] {
      auto gang = actor_group<Talker>({options("n1", "3"), options("n2", file)});
      get(gang[0].call<&Talker::say>(std::string("x")), kJobPatience);
    });
    expect(refused.find(str("its log file '", folder / file, "' cannot be opened: ")) !=
               std::string::npos,
           "the refusal: " + refused);
    expect(content_of(folder / "3").empty(), "nobody has started");
  }
  get(remote(on("n1"), here), kJobPatience);
}

void strangers() {
  TcpAddress at = parse_address(nodes()[0].address);
  std::string refused = failure_of([&] {
    auto transport =
        connect_tls(TlsKey("not the token of this run"), at.host, at.port, Deadline::after(10s));
    // The other side may notice it first: then it closes.
    Channel channel(std::move(transport));
    channel.send([](OutBuffer& out) { out.push(0, "hello"); });
    Frame frame;
    if (!channel.receive(&frame, Deadline::after(10s))) {
      throw Error(ErrorKind::kCorrupt, "it was closed");
    }
  });
  expect(!refused.empty(), "a stranger is refused");
  expect(get(remote(on("n1"), here), kJobPatience) == "n1", "the run goes on");
}

// In its first attempt, reports where it runs and then hangs.
std::string stuck_at_first(const std::string& node) {
  if (here() == node && get_runtime_context().attempt == 1) {
    std::cout << "stuck on " << node << std::endl;
    std::this_thread::sleep_for(120s);
  }
  return here();
}

void killed_worker() {
  auto again = remote(on("n1"), [] {
    if (get_runtime_context().attempt == 1) ::kill(::getpid(), SIGKILL);
    return here();
  });
  expect(get(again, kJobPatience) == "n1", "a task is run again on its node");
  std::string lost = failure_of([] {
    TaskOptions options = on("n1");
    options.max_retries = 0;
    auto dies = remote(options, [] {
      std::cout << "last words" << std::endl;
      ::kill(::getpid(), SIGKILL);
    });
    get(dies, kJobPatience);
  });
  expect(lost.find("on n1) was killed by SIGKILL") != std::string::npos &&
             lost.find("last words") != std::string::npos,
         "the error tells of the process and its last words: " + lost);
}

// The test makes the host n2 fail, in different ways, while a task runs there.
void lost_host() {
  auto there = remote(on("n2"), make_numbers, 1'000'000);
  wait(std::vector{there});
  TaskOptions options{.resources = {.cpus = 1}, .placement = Placement::kSpread};
  std::vector<ObjectRef<std::string>> tasks;
  for (int i = 0; i < 8; ++i) tasks.push_back(remote(options, stuck_at_first, std::string("n2")));
  auto resident = manta::actor<Resident>(
      ActorOptions{.max_restarts = 1, .max_call_retries = 1, .labels = {{"node", "n2"}}});
  expect(get(resident.call<&Resident::where>(), kJobPatience) == "n2", "an actor on n2");
  std::cout << "ready" << std::endl;
  std::map<std::string, int> ran;
  for (auto& each : tasks) ++ran[get(each, kJobPatience)];
  expect(!ran.contains("n2"), "tasks are run again on the hosts that are left");
  // A host that hears nothing ends its workers, and can still report that, before it is given up.
  expect(eventually([] { return nodes().size() == 2; }), "the host is gone");
  std::string lost = failure_of([&] { get(there, kJobPatience); });
  expect(lost.find("n2") != std::string::npos && lost.find("lost") != std::string::npos,
         "its object is lost: " + lost);
  lost = failure_of([&] { get(remote(on("n1"), sum_of, there), kJobPatience); });
  expect(lost.find("an argument of") != std::string::npos, "who needs it fails: " + lost);
  lost = failure_of([&] { get(resident.call<&Resident::where>(), kJobPatience); });
  expect(lost.find("no node has these labels") != std::string::npos,
         "an actor that only n2 could run: " + lost);
  expect(get(remote(on("n1"), here), kJobPatience) == "n1", "the run goes on");
}

// The test plays the other node. It has joined before, and may be lost already.
void deaf_node() {
  expect(eventually([] { return nodes().size() == 1; }), "it is lost");
}

// The test cuts the host n2 off, and connects it again before it has fenced itself.
void healed() {
  auto resident = manta::actor<Talker>(
      ActorOptions{.max_restarts = 1, .max_call_retries = 1, .labels = {{"node", "n2"}}});
  pid_t before = get(resident.call<&Talker::say>(std::string("first")), kJobPatience);
  NodeId node = nodes()[2].id;
  std::cout << "ready" << std::endl;
  expect(eventually([&] {
           auto all = nodes();
           return all.size() == 3 && all[2].host == "n2" && all[2].id != node;
         }),
         "the host is there again, as another node");
  expect(get(resident.call<&Talker::say>(std::string("second")), kJobPatience) != before,
         "the actor is a new one");
  expect(eventually([&] { return ::kill(before, 0) != 0 && errno == ESRCH; }),
         "the old one has ended, although its host hears the driver again");
  expect(nodes().size() == 3, str(nodes().size(), " nodes"));
}

// Uses everything that listens, until the test ends it.
void busy_everywhere() {
  std::vector<ActorOptions> options(
      3, ActorOptions{.resources = {.cpus = 1}, .placement = Placement::kStrictSpread});
  auto actors = actor_group<Resident>(options);
  for (auto& each : actors) {
    auto large = each.call<&Resident::numbers>(1'000'000);
    for (const Node& node : nodes()) get(remote(on(node.host), sum_of, large), kJobPatience);
  }
  std::cout << "ready" << std::endl;
  std::this_thread::sleep_for(kJobPatience);
}

std::string join_file() {
  std::string cluster = std::getenv("MANTA_CLUSTER");
  size_t begin = cluster.find("file=") + 5;
  return cluster.substr(begin, cluster.find(';', begin) - begin);
}

// A peer that has the run's token, on the driver's own host.
void nonsense() {
  std::ifstream file(join_file());
  std::string line;
  std::getline(file, line);
  AgentOrder order = AgentOrder::parse(line);
  auto connect = [&] {
    return Channel(
        connect_tls(TlsKey(order.token), order.host, order.port, Deadline::after(kJobPatience)));
  };
  auto is_dropped = [](Channel& channel) {
    Frame frame;
    try {
      while (channel.receive(&frame, Deadline::after(kJobPatience))) {
      }
    } catch (const Error& error) {
      return error.kind() != ErrorKind::kTimeout;
    }
    return true;
  };
  auto resident = manta::actor<Resident>(ActorOptions{.labels = {{"node", "n1"}}});
  expect(get(resident.call<&Resident::where>(), kJobPatience) == "n1", "an actor on n1");

  AgentHello hello;
  hello.build_id = program_build_id();
  hello.started_as = "liar";
  hello.node.host = "liar";
  hello.node.address = "10.213.0.1:1";
  std::vector<std::function<void(OutBuffer&)>> first_words;
  for (uint16_t type : {0, 1, 2, 3, 77, 65535}) {
    for (size_t size : {0, 1, 20, 3000}) {
      first_words.push_back([=](OutBuffer& out) { out.push(type, std::string(size, '\xff')); });
    }
  }
  auto damaged = [&](auto change) {
    AgentHello bad = hello;
    change(bad);
    first_words.push_back([bad](OutBuffer& out) { encode_message<FirstWord>(out, bad); });
  };
  damaged([](AgentHello& bad) { bad.build_id[0] ^= 1; });
  damaged([](AgentHello& bad) { bad.node.total.cpus = std::nan(""); });
  damaged([](AgentHello& bad) { bad.node.total.custom = {{"x", -1}}; });
  damaged([](AgentHello& bad) { bad.node.labels = {{"", "x"}}; });
  damaged([](AgentHello& bad) { bad.node.host = "a\nb"; });
  damaged([](AgentHello& bad) { bad.node.address = "nowhere"; });
  first_words.push_back([](OutBuffer& out) {
    encode_message<FirstWord>(out, ReadMemory{1, ~0ul});
  });
  first_words.push_back([&](OutBuffer& out) {
    encode_message<FirstWord>(out, Hello{order.token, program_build_id(), 1});
  });
  for (size_t i = 0; i < first_words.size(); ++i) {
    Channel channel = connect();
    channel.send(first_words[i]);
    expect(is_dropped(channel), str("first word ", i, " is refused"));
    expect(nodes().size() == 2, str("no node comes of first word ", i));
  }

  // Acts as an agent that has joined.
  std::vector<std::function<void(OutBuffer&)>> lies;
  for (uint16_t type : {0, 1, 2, 3, 4, 5, 6, 7, 77, 65535}) {
    lies.push_back([=](OutBuffer& out) { out.push(type, std::string(20, '\xff')); });
  }
  auto about = [&](auto make) {
    lies.push_back([=](OutBuffer& out) {
      for (ProcessId process = 1; process < 20; ++process) {
        encode_message<FromAgent>(out, make(process));
      }
    });
  };
  about([](ProcessId process) {
    ProcessExit exit;
    exit.process = process;
    return exit;
  });
  about([](ProcessId process) { return AgentStarted{process, 1}; });
  about([](ProcessId process) { return AgentStartFailed{{process}, "a lie"}; });
  about([](ProcessId process) { return AgentLog{process, "a lie"}; });
  for (size_t i = 0; i < lies.size(); ++i) {
    Channel channel = connect();
    channel.send([&](OutBuffer& out) { encode_message<FirstWord>(out, hello); });
    expect(eventually([] { return nodes().size() == 3; }), "a node joins");
    channel.send(lies[i]);
    expect(is_dropped(channel), str("lie ", i, " is found out"));
    expect(eventually([] { return nodes().size() == 2; }), str("the node of lie ", i, " goes"));
  }
  expect(get(resident.call<&Resident::where>(), kJobPatience) == "n1", "the actor lives");
}

bool drains(const std::string& host) {
  auto all = nodes();
  return std::any_of(all.begin(), all.end(), [&](const Node& node) {
    return node.host == host && node.state == NodeState::kDraining;
  });
}

// Its host will not come again.
void draining() {
  auto asked = remote(on("n1"), [] { return ::kill(agent_pid(), SIGTERM) == 0; });
  expect(get(asked, kJobPatience), "a signal for the agent");
  expect(eventually([] { return drains("n1"); }), "the node drains");
  std::string refused = failure_of([] { remote(on("n1"), here); });
  expect(refused.find("n1 (is draining)") != std::string::npos, "nothing new: " + refused);
  expect(get(remote(on("n2"), here), kJobPatience) == "n2", "others go on");
}

// Another user asks for the node n2.
void drained_by_others() {
  std::cout << "ready" << std::endl;
  expect(eventually([] { return drains("n2"); }), "n2 drains");
  expect(get(remote(on("n1"), here), kJobPatience) == "n1", "others go on");
}

struct Drainer {
  bool signal_agent() { return ::kill(agent_pid(), SIGTERM) == 0; }
};

// Its host comes again once its agent has ended.
void drained_and_replaced() {
  double all_cpus = nodes()[1].total.cpus;
  NodeId before = nodes()[1].id;
  auto drainer = manta::actor<Drainer>(
      ActorOptions{.resources = {.cpus = all_cpus}, .labels = {{"node", "n1"}}});
  auto before_it = remote(on("n1"), here);  // waits: the actor has the node for itself
  get(drainer.call<&Drainer::signal_agent>(), kJobPatience);
  expect(eventually([] { return drains("n1"); }), "the node drains");
  auto after_it = remote(on("n1"), here);
  std::string why = why_waits(after_it);
  expect(
      why.find("waits for a node that hosts may bring (0 asked for, 0 more possible, 1 more when "
               "what drains has gone)") != std::string::npos,
      "why: " + why);
  auto ends = drainer.call<&Drainer::signal_agent>();
  for (auto& each : {before_it, after_it}) {
    expect(get(each, kJobPatience) == "n1", "the host is there again");
  }
  expect(eventually([&] { return nodes().size() == 4 && nodes()[3].host == "n1"; }) &&
             nodes()[3].id != before,
         "as another node");
}

// The test crashes the host n2.
void replaced() {
  auto resident = manta::actor<Resident>(
      ActorOptions{.max_restarts = 1, .max_call_retries = 1, .labels = {{"node", "n2"}}});
  expect(get(resident.call<&Resident::where>(), kJobPatience) == "n2", "an actor on n2");
  size_t count = nodes().size();
  NodeId last = nodes().back().id;
  std::cout << "ready" << std::endl;
  expect(eventually([&] {
           auto all = nodes();
           return all.size() == count && all.back().host == "n2" && all.back().id > last;
         }),
         "the host is there again");
  expect(get(resident.call<&Resident::where>(), kJobPatience) == "n2", "and so is its actor");
}

// The host n2 crashes for good; n4 is not of the allocation.
void given_up() {
  size_t count = nodes().size();
  std::cout << "ready" << std::endl;
  expect(eventually([&] {
           auto all = nodes();
           return all.size() == count && all.back().host == "n4";
         }),
         "another host is there instead");
  expect(get(remote(on("n4"), here), kJobPatience) == "n4", "a task there");
}

// The test crashes the host n2, and lets it come back only after many tries.
void away_for_long() {
  NodeId before = nodes()[2].id;
  std::cout << "ready" << std::endl;
  expect(eventually([&] { return nodes().size() == 2; }), "the host is lost");
  auto task = remote(on("n2"), here);
  std::string why;
  expect(eventually([&] {
           why = why_waits(task);
           return why.find("'n2' was asked for 3 times and did not come") != std::string::npos;
         }),
         "why: " + why);
  expect(why.find("n2 is switched off") != std::string::npos, "the reason: " + why);
  expect(get(task, kJobPatience) == "n2" && nodes()[2].id != before, "the host is there again");
}

void given_back() {
  expect(eventually([] { return nodes().size() == 1; }), "idle nodes go");
  auto task = remote(on("n2"), here);
  std::string why = why_waits(task);
  expect(why.find("waits for a node that hosts may bring") != std::string::npos, "why: " + why);
  expect(get(task, kJobPatience) == "n2", "a node that is needed comes again");
  // A value that is nowhere else keeps its node.
  auto kept = remote(on("n2"), make_numbers, 1'000'000);
  wait(std::vector{kept});
  std::this_thread::sleep_for(1500ms);
  expect(sum_of(get(kept, kJobPatience)) == int64_t{1'000'000} * 999'999 / 2, "it is still there");
}

// A value that two idle nodes have keeps one of them.
void kept_by_one() {
  auto kept = remote(on("n1"), make_numbers, 1'000'000);
  wait(std::vector{remote(on("n2"), sum_of, kept)});
  expect(eventually([] { return nodes().size() < 3; }), "an idle node goes");
  std::this_thread::sleep_for(1500ms);
  expect(nodes().size() == 2, str(nodes().size(), " nodes"));
  expect(sum_of(get(kept, kJobPatience)) == int64_t{1'000'000} * 999'999 / 2, "it is still there");
}

// The test stops the driver for longer than dead_after.
void stood_still() {
  auto talkers = actor_group<Talker>(std::vector<ActorOptions>(
      3, {.resources = {.cpus = 1}, .placement = Placement::kStrictSpread}));
  auto pids = [&] {
    std::vector<int> result;
    for (auto& each : talkers) {
      result.push_back(get(each.call<&Talker::say>(std::string("I am here")), kJobPatience));
    }
    return result;
  };
  auto before = pids();
  std::cout << "ready" << std::endl;
  auto last = Clock::now();
  expect(eventually([&] { return Clock::now() - std::exchange(last, Clock::now()) > 5s; }),
         "it stood still");
  std::this_thread::sleep_for(2500ms);  // two checks of which agents are alive
  expect(pids() == before, "all actors live");
  for (const char* node : {"n1", "n2"}) {
    expect(get(remote(on(node), here), kJobPatience) == node, str("a task on ", node));
  }
  expect(nodes().back().id == 2, "no node is another");
}

// The number of jobs that wait in Slurm's queue.
int pending_jobs() {
  std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen("squeue -h -t PENDING -o %i | wc -l", "re"),
                                             ::pclose);
  int count = -1;
  expect(pipe && std::fscanf(pipe.get(), "%d", &count) == 1, "what squeue says");
  return count;
}

// Two more nodes are asked for, and wait in Slurm's queue.
void asks_for_what_it_needs() {
  auto fills_node = [] {
    return manta::actor<Resident>(
        ActorOptions{.resources = {.cpus = 2}, .labels = {{"role", "worker"}}});
  };
  auto first = fills_node();
  expect(!get(first.call<&Resident::where>(), kJobPatience).empty(), "one has room");
  {
    auto second = fills_node(), third = fills_node();
    expect(eventually([] { return pending_jobs() == 2; }), str(pending_jobs(), " jobs wait"));
    std::this_thread::sleep_for(3s);  // longer than grow_wait
    expect(pending_jobs() == 2, str(pending_jobs(), " jobs wait after a while"));
  }
  expect(eventually([] { return pending_jobs() == 0; }), "nothing needs them, and they are gone");
  expect(nodes().size() == 2, str(nodes().size(), " nodes"));
}

// Its agents are copies, which Slurm has made of the program.
void copied() {
  std::string cluster = std::getenv("MANTA_CLUSTER");
  std::string folder = cluster.substr(cluster.find("--bcast=") + 8);
  auto program = [] {
    return std::filesystem::read_symlink("/proc/" + std::to_string(agent_pid()) + "/exe").string();
  };
  for (const char* node : {"n1", "n2", "n3"}) {
    std::string path = get(remote(on(node), program), kJobPatience);
    expect(path.starts_with(folder), "the agent's program: " + path);
  }
}

// The agent of a node dies, and the cluster has no other place.
void agent_killed() {
  auto before = nodes();
  expect(before.size() == 4, str(before.size(), " nodes"));
  TaskOptions options = on(before[2].host);
  options.max_retries = 0;
  auto kills = remote(options, [] { return ::kill(agent_pid(), SIGKILL) == 0; });
  expect(eventually([&] {
           auto all = nodes();
           return all.size() == 4 && all.back().id > before.back().id;
         }),
         "another comes");
  expect(get(remote(on(nodes().back().host), here), kJobPatience) == before[2].host,
         "in the same place");
}

// The test crashes its only node.
void moves() {
  Node before = nodes().back();
  std::cout << "on " << before.host << "." << std::endl;
  expect(eventually([&] { return nodes().back().id > before.id; }), "another node comes");
  expect(nodes().back().host != before.host, "elsewhere");
  expect(get(remote(on(nodes().back().host), here), kJobPatience) != before.host, "and works");
}

// Gives two of three nodes back, and runs until the test ends it.
void gives_two_back() {
  expect(eventually([] { return nodes().size() == 2; }), "idle nodes go");
  std::cout << "ready" << std::endl;
  std::this_thread::sleep_for(2 * kJobPatience);
}

void one_joins() {
  expect(eventually([] { return nodes().size() == 2; }), "a node joins");
}

// No file can be opened, until the test says so.
void no_files_left() {
  const std::string go = join_file() + ".go";
  rlimit before{};
  expect(::getrlimit(RLIMIT_NOFILE, &before) == 0, "a limit");
  UniqueFd lowest(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  rlimit none{static_cast<rlim_t>(lowest.get()), before.rlim_max};
  expect(::setrlimit(RLIMIT_NOFILE, &none) == 0, "a lower limit");
  std::cout << "ready" << std::endl;
  bool told = eventually([&] { return ::access(go.c_str(), F_OK) == 0; });
  ::setrlimit(RLIMIT_NOFILE, &before);
  expect(told, "the test goes on");
  one_joins();
}

void waits_for_node() {
  auto large = [] { return remote({.resources = {.cpus = 6}}, here); };
  std::string refused = failure_of([] { remote({.resources = {.cpus = 9}}, here); });
  expect(refused.find("asks for 9 CPU") != std::string::npos, "more than may come: " + refused);
  std::string late = failure_of([&] { get(large(), kJobPatience); });
  expect(late.find("join has brought no node that can hold it in 2 s") != std::string::npos,
         "nobody came: " + late);
  auto task = large();
  expect(why_waits(task).find("waits for a node that join may bring (0 asked for, 1 more") !=
             std::string::npos,
         "why: " + why_waits(task));
  std::cout << "ready" << std::endl;
  expect(get(task, kJobPatience) == "n1", "it runs where there is room now");
}

// One node beside the driver's at first, three at most.
void grows() {
  std::vector<ActorOptions> options(
      4, ActorOptions{.resources = {.cpus = 1}, .placement = Placement::kStrictSpread});
  auto actors = actor_group<Resident>(options);
  std::set<std::string> seen;
  for (auto& each : actors) seen.insert(get(each.call<&Resident::where>(), kJobPatience));
  expect(seen.size() == 4, str("actors on ", seen.size(), " nodes"));
  options.resize(5, options.front());
  std::string refused = failure_of([&] { actor_group<Resident>(options); });
  expect(refused.find("STRICT_SPREAD") != std::string::npos, "more than may come: " + refused);
  actors.clear();
  expect(eventually([] { return nodes().size() == 2; }), "idle nodes go");
}

void each_host_once() {
  auto all = nodes();
  std::set<std::string> names;
  for (const Node& node : all) {
    names.insert(node.host);
    expect(get(remote(on(node.host), here), kJobPatience) == node.host, "a task on " + node.host);
  }
  expect(all.size() == 3 && names.size() == 3, str(all.size(), " nodes, ", names.size(), " hosts"));
}

// The test asks all nodes but the driver's to end while tasks run there.
void preempted() {
  std::vector<ObjectRef<std::string>> tasks;
  for (const Node& node : nodes()) {
    if (node.id == 0) continue;
    TaskOptions options = on(node.host);
    options.max_retries = 0;
    tasks.push_back(remote(options, [] {
      std::this_thread::sleep_for(3s);
      return here();
    }));
  }
  for (auto& each : tasks) {
    expect(eventually([&] { return why_waits(each).find("runs in") != std::string::npos; }),
           "all are at work");
  }
  std::cout << "ready" << std::endl;
  auto drained = [] {
    auto all = nodes();
    return std::all_of(all.begin(), all.end(), [](const Node& node) {
      return node.id == 0 || node.state == NodeState::kDraining;
    });
  };
  expect(eventually(drained), "all nodes drain");
  for (auto& each : tasks) get(each, kJobPatience);
}

}  // namespace

int run_cluster_job(const std::string& name) {
  const std::map<std::string, void (*)()> jobs = {
      {"hello", hello},
      {"objects", objects},
      {"logs", logs},
      {"healed", healed},
      {"busy_everywhere", busy_everywhere},
      {"nonsense", nonsense},
      {"strangers", strangers},
      {"killed_worker", killed_worker},
      {"lost_host", lost_host},
      {"deaf_node", deaf_node},
      {"draining", draining},
      {"drained_and_replaced", drained_and_replaced},
      {"kept_by_one", kept_by_one},
      {"stood_still", stood_still},
      {"preempted", preempted},
      {"each_host_once", each_host_once},
      {"drained_by_others", drained_by_others},
      {"replaced", replaced},
      {"away_for_long", away_for_long},
      {"given_up", given_up},
      {"given_back", given_back},
      {"waits_for_node", waits_for_node},
      {"asks_for_what_it_needs", asks_for_what_it_needs},
      {"copied", copied},
      {"agent_killed", agent_killed},
      {"moves", moves},
      {"gives_two_back", gives_two_back},
      {"one_joins", one_joins},
      {"no_files_left", no_files_left},
      {"grows", grows}};
  try {
    jobs.at(name)();
    std::cout << "all is well" << std::endl;
    return 0;
  } catch (const std::exception& error) {
    std::cout << "job " << name << ": " << error.what() << std::endl;
    return 1;
  }
}

}  // namespace manta
