#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

#include <boost/asio/signal_set.hpp>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/node_agent_internal.h"
#include "manta/core/node_declaration_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/loop_turn_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kWelcomeDeadline{20};
// The time to send the last output of processes, once the run is over.
constexpr std::chrono::seconds kAgentLastWords{5};

}  // namespace

NodeAgent::NodeAgent(FoundDriver driver, std::vector<std::string> argv)
    : order_(std::move(driver.order)),
      argv_(std::move(argv)),
      key_(order_.token),
      folder_("", SessionFolder::kNotYet),
      local_token_(random_token()),
      connection_(std::move(driver.connection)),
      connector_(key_, order_.host, order_.port) {}

NodeAgent::~NodeAgent() = default;

void NodeAgent::join_run() {
  std::string address = local_address(connection_->fd()).host;
  std::lock_guard lock(loop_.mutex);
  driver_ = std::make_shared<AsyncChannel>(loop_, std::move(connection_), kMaxFrameBody);
  // Memory gets numbers once the driver has said which node this is; until then no node asks for
  // memory.
  auto serve = [this](const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
    if (!memory_) throw Error(ErrorKind::kCorrupt, "this node has not joined its run");
    server_->serve(*memory_, channel, frame);
  };
  listener_ = std::make_unique<TlsListener>(loop_, key_, listen_tcp(address, 0), serve);
  AgentHello hello;
  hello.build_id = program_build_id();
  hello.started_as = order_.started_as;
  const char* slurm_node = std::getenv("SLURMD_NODENAME");
  if (order_.started_as == kSlurmNode && slurm_node) hello.started_as = slurm_node;
  hello.node.host = host_name();
  hello.node.address = listener_->address().text();
  hello.node.total = detect_resources(declared_resources());
  hello.node.labels = declared_labels();
  node_ = hello.node;
  encode_message<FirstWord>(driver_->out(), hello);
  driver_->start([this](Frame& frame) { on_driver_frame(frame); },
                 [this](const std::string& why) {
                   end(why.empty() ? "the driver has gone" : "the driver is lost: " + why);
                 });
  wait_for_signal();
  fence_ = std::chrono::milliseconds(kWelcomeDeadline);
  heard();
  watch_driver();
}

void NodeAgent::end_with_input() {
  input_.emplace(loop_.context, ::fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 0));
  input_->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                     [this](boost::system::error_code error) {
                       std::lock_guard lock(loop_.mutex);
                       if (!error) end("what started it has gone");
                     });
}

void NodeAgent::run_loop() {
  join_run();
  LoopTurn(loop_).run();
  // Nothing runs on the loop any more.
  pumps_.clear();
  worker_listener_.reset();
  status_socket_.reset();
  listener_.reset();
  fetcher_.reset();
  server_.reset();
  connector_.stop();
  if (engine_) engine_->shutdown();
}

void NodeAgent::end(const std::string& why) {
  if (std::exchange(ending_, true)) return;
  ended_ = why;
  if (driver_) driver_->close();
  loop_.context.stop();
}

void NodeAgent::heard() { heard_ = Clock::now(); }

// A node that is cut off must not go on with work that the driver starts elsewhere meanwhile.
void NodeAgent::watch_driver() {
  fence_timer_ = loop_.after(fence_ / 10, [this] {
    if (Clock::now() - heard_ > fence_) {
      return end(str("no word from the driver for ", fence_.count() / 1000.0,
                     " s: this node ends its processes, because the driver has given it up"));
    }
    watch_driver();
  });
}

void NodeAgent::wait_for_signal() {
  signals_.async_wait([this](boost::system::error_code error, int) {
    std::lock_guard lock(loop_.mutex);
    if (error) return;
    if (std::exchange(draining_, true)) return end("it was asked to end twice");
    encode_message<FromAgent>(driver_->out(), AgentDraining{"it received SIGTERM"});
    wait_for_signal();
  });
}

// ---- The driver

void NodeAgent::on_driver_frame(Frame& frame) {
  heard();
  ToAgent message = decode_message<ToAgent>(frame);
  bool comes_first = std::holds_alternative<AgentWelcome>(message) ||
                     std::holds_alternative<AgentRejected>(message) ||
                     std::holds_alternative<AgentPing>(message) ||
                     std::holds_alternative<AgentEnd>(message);
  if (!engine_ && !comes_first) {
    throw Error(ErrorKind::kCorrupt, "the driver asks for something before it has said welcome");
  }
  std::visit([this](auto& inner) { on(std::move(inner)); }, message);
}

void NodeAgent::on(AgentWelcome welcome) {
  if (engine_) throw Error(ErrorKind::kCorrupt, "it is welcomed twice");
  node_.id = welcome.node;
  fence_ = std::chrono::milliseconds(welcome.fence_ms);
  watch_driver();
  fetcher_ = std::make_unique<MemoryMover>(key_, kMostFetches, welcome.encrypt_objects);
  server_ = std::make_unique<MemoryMover>(key_, kMostServed, welcome.encrypt_objects);
  memory_ = std::make_shared<NodeMemory>(node_.id);
  RunAddress address{folder_.path() + "/hub.sock", local_token_};
  LocalEngineOptions options{node_, address, folder_.path(), argv_};
  options.zygote = std::make_shared<ZygoteProcess>(options.for_zygote());
  folder_.make();
  std::filesystem::create_directories(folder_.path() + "/logs");
  logs_ = std::make_unique<WorkerLogs>(
      loop_, welcome.show_output, welcome.fold_repeated_lines, [this](std::string& lines) {
        if (lines.empty()) return true;
        if (driver_->out().size() > kMostPendingOutput) return false;
        encode_message<FromAgent>(driver_->out(), AgentOutput{std::exchange(lines, {})});
        return true;
      });
  streams_ = std::make_unique<LogStreams>(loop_, driver_);
  worker_listener_ =
      std::make_unique<UnixListener>(loop_, address.socket_path,
                                     [this](const std::shared_ptr<AsyncChannel>& channel,
                                            Frame& first) { on_worker(channel, first); });
  status_socket_ = std::make_unique<StatusSocket>(loop_, folder_.path() + "/" + kStatusSocket,
                                                  [this] { return status(); });
  engine_ = std::make_unique<LocalEngine>(loop_, options, *this);
}

void NodeAgent::on(AgentRejected rejected) { end("the driver refuses it: " + rejected.why); }
void NodeAgent::on(AgentPing) { encode_message<FromAgent>(driver_->out(), AgentPong{}); }

void NodeAgent::on(AgentEnd) {
  for (auto& [process, log] : log_of_) log->show(/*last=*/true);
  end_timer_ = loop_.after(kAgentLastWords, [this] { end(""); });
  auto flushed = [this] { driver_->when_sent([this] { end(""); }); };
  if (!streams_) return flushed();
  streams_->finish_all(flushed);
}

void NodeAgent::on(AgentStart start) {
  for (ProcessId process : start.logs_wanted) {
    streams_->follow(process, log_path_of(process));
  }
  for (auto& [process, spec] : start.gang) {
    if (streams_->follows(process)) spec.log_path = log_path_of(process);
    if (spec.log_path.empty()) spec.log_path = folder_.path() + "/logs/" + spec.name + ".log";
    if (spec.detached_call.empty()) {
      log_of_[process] = std::make_unique<WorkerLog>(*logs_, spec.name, spec.log_path);
    }
  }
  engine_->start_as(start.gang);
}

// The driver knows the rest.
std::string NodeAgent::status() const {
  nlohmann::json status = {{"format", 1},
                           {"role", "agent"},
                           {"pid", ::getpid()},
                           {"node", node_.id},
                           {"driver", str(order_.host, ":", order_.port)},
                           {"processes", pumps_.size()},
                           {"draining", draining_}};
  return status.dump() + "\n";
}

// Does not use the process's name: other processes may have that name, too, with other log files.
std::string NodeAgent::log_path_of(ProcessId process) const {
  return str(folder_.path(), "/logs/process-", process, ".log");
}

void NodeAgent::on(AgentKill kill) { engine_->kill(kill.process); }
void NodeAgent::on(AgentDrop drop) { memory_->drop(drop.number); }

void NodeAgent::on(AgentFetch fetch) {
  fetcher_->fetch(fetch.address, fetch.number, fetch.size,
                  [this, fetch](std::shared_ptr<SharedMemory> memory, const std::string& why) {
                    loop_.post([this, fetch, memory, why] {
                      if (memory) memory_->put(fetch.number, memory);
                      encode_message<FromAgent>(driver_->out(), AgentFetched{fetch.request, why});
                    });
                  });
}

// ---- The engine

void NodeAgent::on_started(ProcessId process, pid_t pid) {
  encode_message<FromAgent>(driver_->out(), AgentStarted{process, pid});
}

void NodeAgent::on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) {
  for (ProcessId process : gang) {
    log_of_.erase(process);
    streams_->forget(process);
  }
  encode_message<FromAgent>(driver_->out(), AgentStartFailed{gang, why});
}

void NodeAgent::on_exited(const ProcessExit& exit) {
  ProcessExit told = exit;
  auto log = log_of_.find(exit.process);
  if (log != log_of_.end()) {
    told.log_tail = log->second->tail(exit.log_end);
    logs_->finish(std::move(log->second));
    log_of_.erase(log);
  }
  // Its last frames may have arrived, and not been passed on.
  auto pump = pumps_.find(exit.process);
  if (pump != pumps_.end()) pump->second->finish();
  streams_->finish(exit.process, [this, told] { encode_message<FromAgent>(driver_->out(), told); });
}

// ---- Its processes

void NodeAgent::on_worker(const std::shared_ptr<AsyncChannel>& channel, Frame& first) {
  ToHub message = decode_message<ToHub>(first);
  auto* hello = std::get_if<Hello>(&message);
  if (!hello || !same_secret(hello->token, local_token_)) {
    throw Error(ErrorKind::kCorrupt, "a process of this node does not know its token");
  }
  hello->token = order_.token;
  channel->trust();
  auto pump = std::make_shared<FramePump>(memory_, node_.id, channel);
  ProcessId process = hello->process;
  if (pumps_.contains(process)) throw Error(ErrorKind::kCorrupt, "a process connects twice");
  pumps_[process] = pump;
  pump->start([this, process] { pumps_.erase(process); });
  connector_.connect([this, pump, hello = *hello](std::unique_ptr<Transport> transport,
                                                  const std::string& why) {
    auto shared = std::make_shared<std::unique_ptr<Transport>>(std::move(transport));
    loop_.post([this, pump, hello, shared, why] {
      if (!*shared) {
        log_warning(str("process ", hello.process, " of this node cannot reach the driver: ", why));
        return pump->close();
      }
      auto hub = std::make_shared<AsyncChannel>(loop_, std::move(*shared), kMaxFrameBody);
      encode_message<FirstWord>(hub->out(), hello);
      pump->connect(hub);
    });
  });
}

void run_node_agent(const std::string& order_from, std::vector<std::string> argv) {
  int code = 1;
  std::string why;
  try {
    NodeAgent agent(find_driver(order_from), std::move(argv));
    if (order_from == kHeldByInput) agent.end_with_input();
    agent.run_loop();
    why = agent.ended();
    code = why.empty() ? 0 : 1;
  } catch (const std::exception& error) {
    why = error.what();
  }
  if (!why.empty()) std::cerr << "manta: the agent of this node ends: " << why << std::endl;
  ::fflush(nullptr);
  ::_exit(code);
}

}  // namespace manta
