#include <fcntl.h>
#include <netdb.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/cluster_engine_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

constexpr std::chrono::milliseconds kLongestPause{1000};  // between two pings
constexpr int kLooks = 4;  // in each pause, for agents that have not answered for too long
constexpr std::chrono::seconds kEndDeadline{10};
constexpr std::chrono::seconds kEndAnyway{1};

// The address of this host from which `host` is reached; empty if there is none.
std::string address_towards(const std::string& host) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_DGRAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), "9", &hints, &found) != 0) return "";
  std::string address;
  for (addrinfo* each = found; each && address.empty(); each = each->ai_next) {
    UniqueFd socket(::socket(each->ai_family, SOCK_DGRAM | SOCK_CLOEXEC, 0));
    // Sends nothing: it only chooses a route.
    if (socket && ::connect(socket.get(), each->ai_addr, each->ai_addrlen) == 0) {
      address = local_address(socket.get()).host;
    }
  }
  ::freeaddrinfo(found);
  return address;
}

// Why an agent's report of its node cannot be right; empty if it can.
std::string why_invalid(const NodeInfo& node) {
  bool named = !node.host.empty() && node.host.size() <= 255 &&
               std::all_of(node.host.begin(), node.host.end(),
                           [](unsigned char each) { return each > ' ' && each != 127; });
  if (!named) return "its host has no proper name";
  try {
    check_resources(node.total, "node " + node.host);
    check_labels(node.labels, "node " + node.host);
    parse_address(node.address);
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

// A detached process outlives the run, and its log is a file of the machine where it runs.
bool is_log_of_driver(const ProcessSpec& spec) {
  return !spec.log_path.empty() && spec.detached_call.empty();
}

// Not through a link: another user may have made it.
UniqueFd open_log_of_driver(const std::string& path) {
  return UniqueFd(
      ::open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
}

}  // namespace

ClusterEngine::ClusterEngine(EventLoop& loop, ClusterEngineOptions options, EngineEvents& events)
    : loop_(loop),
      options_(std::move(options)),
      events_(events),
      key_(options_.local.address.token),
      source_(make_node_source(
          loop, options_.cluster,
          {options_.local.session_folder, std::filesystem::read_symlink("/proc/self/exe")})),
      fetcher_(std::make_unique<MemoryMover>(key_, kMostFetches, options_.cluster.encrypt_objects)),
      server_(std::make_unique<MemoryMover>(key_, kMostServed, options_.cluster.encrypt_objects)) {
  listener_ = std::make_unique<TlsListener>(loop_, key_, listen_tcp(listen_address(), 0),
                                            [this](const std::shared_ptr<AsyncChannel>& channel,
                                                   Frame& frame) { on_first(channel, frame); });
  listener_->when_stuck([this] {
    log_warning(str("no other node, and no process of one, can connect to the driver at ",
                    listener_->address().text(),
                    ": too many files are open, most likely; raise the ",
                    "limit of open files (ulimit -n); ", describe_limits()));
  });
  local_ = std::make_unique<LocalEngine>(loop_, options_.local, static_cast<EngineEvents&>(*this));
  AgentOrder order;
  order.host = listener_->address().host;
  order.port = listener_->address().port;
  order.token = options_.local.address.token;
  order.build_id = program_build_id();
  source_->start(order, [this](const std::string& started_as, const std::string& why) {
    on_source_failed(started_as, why);
  });
  look_at_agents();
}

ClusterEngine::~ClusterEngine() { shutdown(); }

std::string ClusterEngine::listen_address() const {
  if (!options_.cluster.address.empty()) return options_.cluster.address;
  std::vector<std::string> hosts = source_->some_hosts();
  std::string loopback;
  for (const std::string& host : hosts) {
    std::string address = address_towards(host);
    bool is_loopback = address.starts_with("127.") || address == "::1";
    if (!address.empty() && !is_loopback) return address;
    if (loopback.empty()) loopback = address;  // that will do if all nodes are on this machine
  }
  if (!loopback.empty()) return loopback;
  throw Error(ErrorKind::kInvalidArgument,
              str("it is not known at which address other hosts reach this one (",
                  hosts.empty() ? str("the cluster '", options_.cluster.kind, "' names no host")
                                : str("'", hosts.front(), "' cannot be resolved here"),
                  "): name it with ;address= in the cluster's options"));
}

void ClusterEngine::await_nodes() {
  std::unique_lock lock(loop_.mutex);
  auto until = Clock::now() + options_.cluster.wait;
  // A source may learn only now how many there are.
  auto complete = [&] { return agents_.size() >= source_->expected(); };
  changed_.wait_until(lock, until, [&] { return complete() || !failed_.empty(); });
  begun_ = true;
  were_all_there_ = complete();
  if (were_all_there_) return;
  if (!failed_.empty()) {
    throw Error(ErrorKind::kResources,
                str("node ", failed_.begin()->first, " cannot join: ", failed_.begin()->second));
  }
  std::string there;
  for (const auto& [id, agent] : agents_) there += str(there.empty() ? "" : ", ", agent.info.host);
  std::string said = source_->said();
  throw Error(ErrorKind::kResources,
              str(agents_.size(), " of ", source_->expected(), " nodes have joined in ",
                  static_cast<double>(options_.cluster.wait.count()) / 1000, " s",
                  there.empty() ? "" : str(" (", there, ")"), left_early_,
                  ": look at the others, or wait longer with ;wait= in the cluster's options",
                  said.empty() ? "" : ". What was to start them said:\n" + said));
}

// ---- Connections

void ClusterEngine::on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
  if (frame.type == message_type<FirstWord, ReadMemory>()) {
    return server_->serve(*memory_, channel, frame);
  }
  FirstWord message = decode_message<FirstWord>(frame);
  if (auto* hello = std::get_if<Hello>(&message)) {
    events_.on_process_connected(channel, *hello);
  } else if (auto* agent = std::get_if<AgentHello>(&message)) {
    on_agent(channel, std::move(*agent));
  }
}

void ClusterEngine::on_agent(const std::shared_ptr<AsyncChannel>& channel, AgentHello hello) {
  if (stopping_) return channel->close();
  if (hello.build_id != program_build_id()) {
    encode_message<ToAgent>(
        channel->out(),
        AgentRejected{str("it is of build ", to_hex(hello.build_id), ", this run is of build ",
                          to_hex(program_build_id()), "; run the same binary everywhere")});
    return channel->flush_and_close();
  }
  if (std::string why = why_invalid(hello.node); !why.empty()) {
    encode_message<ToAgent>(channel->out(), AgentRejected{why});
    return channel->flush_and_close();
  }
  if (withdrawn_.contains(hello.started_as)) {
    encode_message<ToAgent>(channel->out(), AgentRejected{"it is not needed any more"});
    return channel->flush_and_close();
  }
  NodeId id = next_node_++;
  hello.node.id = id;
  channel->trust();
  agents_[id] = {hello.node, hello.started_as, channel, Clock::now()};
  channel->start(
      [this, id](Frame& frame) { on_agent_frame(id, frame); },
      [this, id](const std::string& why) { lose(id, why.empty() ? "its agent has ended" : why); });
  tell(id, AgentWelcome{id, options_.cluster.fence_after.count(), options_.show_output,
                        options_.fold_repeated_lines, options_.cluster.encrypt_objects});
  on_agent_joined(hello.started_as, hello.node);
  events_.on_node_joined(hello.node);
  changed_.notify_all();
}

template <class Message>
void ClusterEngine::tell(NodeId node, const Message& message) {
  auto agent = agents_.find(node);
  if (agent != agents_.end()) encode_message<ToAgent>(agent->second.channel->out(), message);
}

void ClusterEngine::on_agent_frame(NodeId node, Frame& frame) {
  auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  FromAgent message = decode_message<FromAgent>(frame);
  if (std::holds_alternative<AgentPong>(message)) return on_answer(node, agent->second);
  if (auto* output = std::get_if<AgentOutput>(&message)) return events_.on_output(output->lines);
  if (auto* log = std::get_if<AgentLog>(&message)) return append_log(node, *log);
  if (stopping_) return;
  if (auto* started = std::get_if<AgentStarted>(&message)) {
    if (is_of(node, started->process)) on_started(started->process, started->pid);
  } else if (auto* failed = std::get_if<AgentStartFailed>(&message)) {
    std::erase_if(failed->gang, [&](ProcessId process) { return !is_of(node, process); });
    on_start_failed(failed->gang, failed->why);
  } else if (auto* exit = std::get_if<ProcessExit>(&message)) {
    if (!is_of(node, exit->process)) return;
    if (is_silent(agent->second)) return agent->second.untold.push_back(*exit);
    on_exited(*exit);
  } else if (auto* fetched = std::get_if<AgentFetched>(&message)) {
    auto request = fetching_.find(fetched->request);
    if (request != fetching_.end() && request->second.to != node) {
      throw Error(ErrorKind::kCorrupt, "it tells of memory that another node has asked for");
    }
    on_fetched(fetched->request, fetched->why);
  } else if (auto* draining = std::get_if<AgentDraining>(&message)) {
    agent->second.draining = true;
    events_.on_node_draining(node, draining->why);
  }
}

// An agent may be able to send although it hears nothing. Its processes notice that at about the
// time at which the node counts as lost. If their ends were reported before that, they would count
// as two losses, and their work would be started again on this same node.
bool ClusterEngine::is_silent(const Agent& agent) const {
  return Clock::now() - agent.heard > 3 * ping_pause() / 2;
}

std::chrono::milliseconds ClusterEngine::ping_pause() const {
  return std::clamp(options_.cluster.dead_after / 4, std::chrono::milliseconds(kLooks),
                    kLongestPause);
}

// Only an answer shows that the agent hears the driver, too.
void ClusterEngine::on_answer(NodeId node, Agent& agent) {
  agent.heard = Clock::now();
  for (const ProcessExit& exit : std::exchange(agent.untold, {})) {
    if (!stopping_ && is_of(node, exit.process)) on_exited(exit);
  }
}

// False if there is no such process any more.
bool ClusterEngine::is_of(NodeId node, ProcessId process) const {
  auto found = node_of_.find(process);
  if (found != node_of_.end() && found->second != node) {
    throw Error(ErrorKind::kCorrupt, str("it tells of process ", process, " of another node"));
  }
  return found != node_of_.end();
}

void ClusterEngine::look_at_agents() {
  auto now = Clock::now();
  // While this process stood still (SIGSTOP, a paused machine, swapping) it heard no agent, so that
  // time counts against none of them.
  auto stood_still = std::max(now - look_due_, Clock::duration::zero());
  const auto pause = ping_pause() / kLooks;
  look_due_ = now + pause;
  bool asks = looks_++ % kLooks == 0;
  std::vector<NodeId> silent;
  for (auto& [id, agent] : agents_) {
    agent.heard = std::min(now, agent.heard + stood_still);
    if (now - agent.heard > options_.cluster.dead_after) silent.push_back(id);
    if (asks) encode_message<ToAgent>(agent.channel->out(), AgentPing{});
  }
  for (NodeId id : silent) {
    lose(id, str("no word from it for ",
                 static_cast<double>(options_.cluster.dead_after.count()) / 1000, " s"));
  }
  if (asks) look_at_coming();
  changed_.notify_all();  // the source may expect fewer nodes than before
  look_timer_ = loop_.after(pause, [this] { look_at_agents(); });
}

void ClusterEngine::lose(NodeId node, const std::string& why) {
  auto found = agents_.find(node);
  if (found == agents_.end()) return;
  found->second.channel->close();
  if (!stopping_) source_->on_left(found->second.started_as);
  bool released = found->second.released;
  if (!begun_) left_early_ += str("; ", found->second.info.host, " joined and was lost: ", why);
  agents_.erase(found);
  if (stopping_) {
    if (agents_.empty()) loop_.context.stop();
    return;
  }
  events_.on_node_left(node, released ? "" : why);
  std::vector<ProcessId> processes;
  for (const auto& [process, at] : node_of_) {
    if (at == node) processes.push_back(process);
  }
  for (ProcessId process : processes) {
    fail_gang(process, "a node that another of its gang was to start on is lost: " + why, node);
    node_of_.erase(process);
    log_of_.erase(process);
    discarded_.erase(process);
  }
  std::vector<uint64_t> fetches;
  for (const auto& [request, fetching] : fetching_) {
    if (fetching.to == node) fetches.push_back(request);
  }
  for (uint64_t request : fetches) on_fetched(request, "the node that wanted it is lost");
}

// ---- Processes

std::vector<ProcessId> ClusterEngine::start(const std::vector<Placed>& gang) {
  std::vector<ProcessId> ids;
  std::map<NodeId, std::vector<std::pair<ProcessId, ProcessSpec>>> by_node;
  for (const Placed& each : gang) {
    ids.push_back(next_process_++);
    node_of_[ids.back()] = each.node;
    by_node[each.node].emplace_back(ids.back(), each.spec);
  }
  if (std::string why = open_logs(gang); !why.empty()) {
    loop_.post([this, ids, why] { on_start_failed(ids, why); });
    return ids;
  }
  if (by_node.size() > 1) {
    auto together = std::make_shared<Gang>(Gang{ids, ids.size()});
    for (ProcessId process : ids) gang_of_[process] = together;
  }
  for (auto& [node, processes] : by_node) {
    if (node == 0) {
      local_->start_as(processes);
      continue;
    }
    AgentStart start;
    for (auto& [process, spec] : processes) {
      if (!is_log_of_driver(spec)) continue;
      log_of_[process] = std::exchange(spec.log_path, {});
      start.logs_wanted.push_back(process);
    }
    start.gang = std::move(processes);
    tell(node, start);  // a node that was lost meanwhile reports that itself
  }
  return ids;
}

// Opens the logs before anything is started, as the zygote does on its machine. Returns why one
// cannot be opened, or an empty string.
std::string ClusterEngine::open_logs(const std::vector<Placed>& gang) const {
  for (const auto& [node, spec] : gang) {
    if (node == 0 || !is_log_of_driver(spec) || open_log_of_driver(spec.log_path)) continue;
    return str("process '", spec.name, "': its log file '", spec.log_path,
               "' cannot be opened: ", errno_text(errno));
  }
  return "";
}

// Opens the file each time: thousands of processes would need thousands of open files.
void ClusterEngine::append_log(NodeId node, const AgentLog& log) {
  auto path = log_of_.find(log.process);
  if (!is_of(node, log.process) || path == log_of_.end()) return;
  UniqueFd file = open_log_of_driver(path->second);
  std::string_view rest = log.bytes;
  while (file && !rest.empty()) {
    ssize_t written = ::write(file.get(), rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) break;
    rest.remove_prefix(static_cast<size_t>(written));
  }
  if (rest.empty()) return;
  log_warning(str("the log file '", path->second, "' of a process on ", agents_.at(node).info.host,
                  " cannot be written: ", errno_text(errno), "; the rest of its output is lost"));
  log_of_.erase(path);
}

void ClusterEngine::kill(ProcessId process) {
  auto node = node_of_.find(process);
  if (node == node_of_.end()) return;
  if (node->second == 0) {
    local_->kill(process);
  } else {
    tell(node->second, AgentKill{process});
  }
}

void ClusterEngine::on_started(ProcessId process, pid_t pid) {
  if (discarded_.contains(process)) return kill(process);
  auto gang = gang_of_.find(process);
  if (gang != gang_of_.end()) {
    auto together = gang->second;
    if (--together->starting == 0) {
      for (ProcessId each : together->processes) gang_of_.erase(each);
    }
  }
  events_.on_started(process, pid);
}

void ClusterEngine::on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) {
  std::vector<ProcessId> told;
  for (ProcessId process : gang) {
    node_of_.erase(process);
    log_of_.erase(process);
    if (discarded_.erase(process) == 0 && !gang_of_.contains(process)) told.push_back(process);
  }
  if (!gang.empty()) fail_gang(gang.front(), why);
  if (!told.empty()) events_.on_start_failed(told, why);
}

// The gang does not run: ends its processes that have started on other nodes. `but`: the node that
// is gone itself.
void ClusterEngine::fail_gang(ProcessId process, const std::string& why, NodeId but) {
  auto found = gang_of_.find(process);
  if (found == gang_of_.end()) return;
  auto gang = found->second;
  std::vector<ProcessId> told;
  for (ProcessId each : gang->processes) {
    gang_of_.erase(each);
    auto node = node_of_.find(each);
    if (node != node_of_.end() && node->second == but) continue;
    told.push_back(each);
    if (node == node_of_.end()) continue;
    discarded_.insert(each);
    kill(each);
  }
  events_.on_start_failed(told, why);
}

void ClusterEngine::on_exited(const ProcessExit& exit) {
  node_of_.erase(exit.process);
  log_of_.erase(exit.process);
  gang_of_.erase(exit.process);
  if (discarded_.erase(exit.process) == 0) events_.on_exited(exit);
}

void ClusterEngine::on_node_joined(const NodeInfo& node) {
  NodeInfo known = node;
  known.address = listener_->address().text();
  events_.on_node_joined(known);
}

// The loop has ended; here it runs again, until every agent has closed its connection.
void ClusterEngine::shutdown() {
  if (!local_) return;
  {
    std::lock_guard lock(loop_.mutex);
    stopping_ = true;
    look_timer_.reset();
    for (auto& [id, agent] : agents_) {
      encode_message<ToAgent>(agent.channel->out(), AgentEnd{});
      agent.channel->flush();
    }
  }
  for (Deadline end = Deadline::after(kEndDeadline); !agents_.empty() && !end.passed();) {
    loop_.context.restart();  // in case something else ended the loop
    loop_.context.run_until(end.at());
  }
  for (auto& [id, agent] : agents_) {
    log_warning(str("node ", agent.info.host, " did not say that it has ended"));
    agent.channel->close();
  }
  agents_.clear();
  for (const auto& [started_as, coming] : coming_) source_->withdraw(started_as);
  // An agent that never joined will not end by itself in time.
  source_->finish(Deadline::after(were_all_there_ ? kEndDeadline : kEndAnyway));
  fetcher_.reset();
  server_.reset();
  listener_.reset();
  local_->shutdown();
  local_.reset();
  source_.reset();
}

// ---- Memory

uint64_t ClusterEngine::keep(std::shared_ptr<SharedMemory> memory) {
  return memory_->keep(std::move(memory));
}

std::shared_ptr<SharedMemory> ClusterEngine::find(uint64_t number) { return memory_->find(number); }

void ClusterEngine::fetch(const MemoryKey& key, NodeId from, NodeId to,
                          std::function<void(const std::string& why)> done) {
  uint64_t request = next_fetch_++;
  fetching_[request] = {to, std::move(done)};
  auto later = [this, request](const std::string& why) {
    loop_.post([this, request, why] { on_fetched(request, why); });
  };
  std::string address = listener_->address().text();
  if (from != 0) {
    auto agent = agents_.find(from);
    if (agent == agents_.end()) return later("the node that has it is lost");
    address = agent->second.info.address;
  }
  if (to != 0) {
    if (!agents_.contains(to)) return later("the node that wants it is lost");
    return tell(to, AgentFetch{request, key.number, key.size, address});
  }
  fetcher_->fetch(address, key.number, key.size,
                  [this, later, number = key.number](std::shared_ptr<SharedMemory> memory,
                                                     const std::string& why) {
                    if (memory) memory_->put(number, std::move(memory));
                    later(why);
                  });
}

void ClusterEngine::on_fetched(uint64_t request, const std::string& why) {
  auto found = fetching_.find(request);
  if (found == fetching_.end()) return;
  auto done = std::move(found->second.done);
  fetching_.erase(found);
  done(why);
}

void ClusterEngine::drop(uint64_t number, const std::set<NodeId>& nodes) {
  if (stopping_) return;
  for (NodeId node : nodes) {
    if (node == 0) {
      memory_->drop(number);
    } else {
      tell(node, AgentDrop{number});
    }
  }
}

}  // namespace manta
