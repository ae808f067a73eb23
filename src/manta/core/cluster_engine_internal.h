#pragma once

#include <condition_variable>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/core/cluster_options_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/located_memory_internal.h"
#include "manta/core/node_memory_internal.h"
#include "manta/core/node_messages_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/node_supply_internal.h"
#include "manta/core/supply_retries_internal.h"
#include "manta/io/tls_listener_internal.h"

namespace manta {

struct ClusterEngineOptions {
  LocalEngineOptions local;
  ClusterOptions cluster;
  bool show_output = true;
  bool fold_repeated_lines = true;
};

/// Several nodes: this machine, through a LocalEngine, and those whose agents have joined. Pings
/// every agent once a second, or four times in ClusterOptions::dead_after, and gives up an agent
/// that is silent for that long. Listens on one TCP address; every peer must prove that it holds
/// the run's token. Uses an event loop.
class ClusterEngine final : public Engine,
                            public MemoryTransfers,
                            public NodeSupply,
                            private EngineEvents {
 public:
  /// Listens, and starts the node source. Throws Error if the options are impossible.
  ClusterEngine(EventLoop& loop, ClusterEngineOptions options, EngineEvents& events);
  ~ClusterEngine() override;

  /// Waits until the nodes that were asked for have joined. Throws Error(kResources) if one will
  /// not join, or not in time. Call it without the loop's mutex.
  void await_nodes();

  std::vector<ProcessId> start(const std::vector<Placed>& gang) override;
  void kill(ProcessId process) override;
  MemoryTransfers* transfers() override { return this; }
  NodeSupply* node_supply() override { return this; }
  /// Call it when the loop has ended.
  void shutdown() override;

  uint64_t keep(std::shared_ptr<SharedMemory> memory) override;
  std::shared_ptr<SharedMemory> find(uint64_t number) override;
  void fetch(const MemoryKey& key, NodeId from, NodeId to,
             std::function<void(const std::string& why)> done) override;
  void drop(uint64_t number, const std::set<NodeId>& nodes) override;

  // cluster_supply.cc
  SupplyState state() const override;
  void want_nodes(const std::string& name, size_t count) override;
  void release_node(NodeId node) override;
  void spare_nodes(const std::map<std::string, size_t>& spare) override;

 private:
  struct Agent {
    NodeInfo info;
    std::string started_as;
    std::shared_ptr<AsyncChannel> channel;
    Clock::time_point heard;
    bool draining = false;
    bool released = false;
    std::vector<ProcessExit> untold = {};  // see is_silent
  };
  /// Processes of several nodes that start together.
  struct Gang {
    std::vector<ProcessId> processes;
    size_t starting = 0;
  };
  struct Fetching {
    NodeId to = 0;
    std::function<void(const std::string& why)> done;
  };

  /// A node that was asked for.
  struct Coming {
    PossibleNodes node;  // its name (empty for a new one), and what it will have
    Clock::time_point asked;
    std::optional<Clock::time_point> spare_since = {};  // nothing needs it
  };

  // cluster_supply.cc
  void on_source_failed(const std::string& started_as, const std::string& why);
  void on_agent_joined(const std::string& started_as, const NodeInfo& node);
  void look_at_coming();
  void withdraw(const std::string& started_as);
  void count_failure(const std::string& name, const std::string& why);
  PossibleNodes describe(const std::string& name, size_t count) const;

  std::string listen_address() const;
  void on_first(const std::shared_ptr<AsyncChannel>& channel, Frame& frame);
  void on_agent(const std::shared_ptr<AsyncChannel>& channel, AgentHello hello);
  void on_agent_frame(NodeId node, Frame& frame);
  bool is_of(NodeId node, ProcessId process) const;
  bool is_silent(const Agent& agent) const;
  std::chrono::milliseconds ping_pause() const;
  void on_answer(NodeId node, Agent& agent);
  void lose(NodeId node, const std::string& why);
  void look_at_agents();
  void fail_gang(ProcessId process, const std::string& why, NodeId but = ~0u);
  void on_fetched(uint64_t request, const std::string& why);
  std::string open_logs(const std::vector<Placed>& gang) const;
  void append_log(NodeId node, const AgentLog& log);
  template <class Message>
  void tell(NodeId node, const Message& message);

  void on_started(ProcessId process, pid_t pid) override;
  void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) override;
  void on_exited(const ProcessExit& exit) override;
  void on_node_joined(const NodeInfo& node) override;
  void on_node_draining(NodeId, const std::string&) override {}
  void on_node_left(NodeId, const std::string&) override {}
  void on_process_connected(const std::shared_ptr<AsyncChannel>&, const Hello&) override {}
  void on_output(const std::string&) override {}

  EventLoop& loop_;
  const ClusterEngineOptions options_;
  EngineEvents& events_;
  const TlsKey key_;
  std::unique_ptr<NodeSource> source_;
  std::unique_ptr<TlsListener> listener_;
  std::shared_ptr<NodeMemory> memory_ = std::make_shared<NodeMemory>(0);
  std::unique_ptr<MemoryMover> fetcher_;
  std::unique_ptr<MemoryMover> server_;
  std::unique_ptr<LocalEngine> local_;

  std::map<NodeId, Agent> agents_;
  NodeId next_node_ = 1;
  std::map<std::string, std::string> failed_;  // nodes that will not come, and why
  std::string left_early_;                     // a node that joined and was lost before all were
                                               // there
  bool begun_ = false;                         // the run goes on, whichever node fails from here on
  bool were_all_there_ = false;                // when it began
  std::map<std::string, Coming> coming_;       // by what their agents will say
  std::set<std::string> withdrawn_;            // nodes that must not join any more, by the same
                                               // name
  std::map<std::string, NodeInfo> known_;      // nodes that have joined once, by the same name
  std::optional<NodeInfo> like_;               // the last node that joined
  SupplyRetries retries_;                      // of nodes that were asked for
  std::condition_variable_any changed_;
  std::unordered_map<ProcessId, NodeId> node_of_;
  std::unordered_map<ProcessId, std::shared_ptr<Gang>> gang_of_;  // until all have started
  std::unordered_map<ProcessId, std::string> log_of_;  // user-named logs of other nodes' processes
  std::unordered_set<ProcessId> discarded_;  // of a gang that failed: their end is not reported
  ProcessId next_process_ = 1;
  std::map<uint64_t, Fetching> fetching_;
  uint64_t next_fetch_ = 1;
  std::unique_ptr<EventLoop::Timer> look_timer_;
  Clock::time_point look_due_ = Clock::now();
  uint64_t looks_ = 0;
  bool stopping_ = false;
};

}  // namespace manta
