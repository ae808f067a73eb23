#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <boost/asio/signal_set.hpp>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/core/find_driver_internal.h"
#include "manta/core/frame_pump_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/log_streams_internal.h"
#include "manta/core/node_connector_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/core/status_socket_internal.h"
#include "manta/core/worker_log_internal.h"
#include "manta/io/tls_listener_internal.h"
#include "manta/io/unix_listener_internal.h"

namespace manta {

/// The program in the role of a node's agent: it starts and watches processes on its host for the
/// driver, as LocalEngine does on the driver's machine, passes on messages between them and the
/// driver, and keeps the node's memory. If it has not heard from the driver for a while, it ends
/// its processes and itself; if it dies, its zygote ends the processes.
class NodeAgent final : public EngineEvents {
 public:
  NodeAgent(FoundDriver driver, std::vector<std::string> argv);
  ~NodeAgent() override;

  /// From here on the agent ends when its standard input ends, or when anything can be read there.
  void end_with_input();
  /// Returns when the run is over, for any reason; none of its processes is left then.
  void run_loop();
  /// Why the agent ended; empty if the driver told it to.
  const std::string& ended() const { return ended_; }

 private:
  void join_run();
  void end(const std::string& why);
  void heard();
  void watch_driver();
  void wait_for_signal();

  void on_driver_frame(Frame& frame);
  void on(AgentWelcome welcome);
  void on(AgentRejected rejected);
  void on(AgentPing ping);
  void on(AgentStart start);
  void on(AgentKill kill);
  void on(AgentFetch fetch);
  void on(AgentDrop drop);
  void on(AgentEnd end);

  void on_started(ProcessId process, pid_t pid) override;
  void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) override;
  void on_exited(const ProcessExit& exit) override;
  void on_node_joined(const NodeInfo&) override {}
  void on_node_draining(NodeId, const std::string&) override {}
  void on_node_left(NodeId, const std::string&) override {}
  void on_process_connected(const std::shared_ptr<AsyncChannel>&, const Hello&) override {}
  void on_output(const std::string&) override {}

  std::string status() const;
  std::string log_path_of(ProcessId process) const;
  void on_worker(const std::shared_ptr<AsyncChannel>& channel, Frame& first);

  const AgentOrder order_;
  const std::vector<std::string> argv_;
  const TlsKey key_;
  SessionFolder folder_;
  const std::string local_token_;  // between this agent and its processes
  NodeInfo node_;

  std::unique_ptr<Transport> connection_;  // to the driver, until the loop has it

  EventLoop loop_;
  boost::asio::signal_set signals_{loop_.context, SIGTERM};
  std::optional<boost::asio::posix::stream_descriptor> input_;
  std::shared_ptr<AsyncChannel> driver_;
  std::shared_ptr<NodeMemory> memory_;
  std::unique_ptr<TlsListener> listener_;  // other nodes fetch memory here
  std::unique_ptr<UnixListener> worker_listener_;
  std::unique_ptr<StatusSocket> status_socket_;
  std::unique_ptr<MemoryMover> fetcher_;
  std::unique_ptr<MemoryMover> server_;
  NodeConnector connector_;
  std::unique_ptr<WorkerLogs> logs_;
  std::unordered_map<ProcessId, std::unique_ptr<WorkerLog>> log_of_;
  std::unique_ptr<LogStreams> streams_;
  std::map<ProcessId, std::shared_ptr<FramePump>> pumps_;
  std::unique_ptr<LocalEngine> engine_;
  Clock::time_point heard_{};
  std::chrono::milliseconds fence_{};
  std::unique_ptr<EventLoop::Timer> fence_timer_;
  std::unique_ptr<EventLoop::Timer> end_timer_;
  bool draining_ = false;
  bool ending_ = false;
  std::string ended_;
};

}  // namespace manta
