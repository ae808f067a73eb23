#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/core/node.h"
#include "manta/core/resources.h"

namespace manta {

class AsyncChannel;
class EventLoop;
class MemoryTransfers;
class NodeSupply;
struct Hello;

/// Identifies a process for the whole run; never used twice.
using ProcessId = uint64_t;

/// What an engine needs to start a process of the user's own binary.
struct ProcessSpec {
  std::string name;      ///< In logs, in `ps`, and before each line that the driver shows.
  std::string log_path;  ///< Receives its standard output and standard error.
  /// The resources that the process holds from its start. An engine with several machines places it
  /// accordingly. A worker of the pool holds nothing at first; the tasks that it runs later hold
  /// resources.
  Resources resources = {.cpus = 0};
  /// Empty for a worker, which connects back to the run and ends with it. Otherwise the process is
  /// detached: it outlives the run, and these bytes are the call that it makes (see
  /// core/detached.h).
  std::string detached_call = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, log_path, detached_call);  // what the process itself needs
  }
};

/// A process and the node that it is started on.
struct Placed {
  NodeId node = 0;
  ProcessSpec spec;
};

/// What an engine knows of a node.
struct NodeInfo {
  NodeId id = 0;
  std::string host;     ///< The host's own name for itself.
  std::string address;  ///< The address at which other nodes reach it; empty on one machine.
  Resources total = {.cpus = 0};
  Labels labels = {};
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, host, address, total, labels);
  }
};

struct ProcessExit {
  ProcessId process = 0;
  int code = 0;
  int signal = 0;  ///< 0 if it exited by itself.
  /// Not 0: it ended because the process that had started it ended. All processes that ended for
  /// that reason have the same number.
  uint64_t lost_with = 0;
  std::string node_lost = {};  ///< Not empty: it was lost with its node, for this reason.
  std::string crash = {};      ///< Where and why, e.g. " in f(int): uncaught E: text", if known.
  std::string stack = {};      ///< The first lines of its stack, if it crashed.
  int64_t log_end = -1;        ///< Where its own output ends, if Manta's crash report follows it.
  std::string log_tail = {};   ///< The last lines of its output, if its log is on another node.
  /// "was killed by SIGSEGV (signal 11) in f(int)" or "exited with code 3".
  std::string describe() const;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process, code, signal, lost_with, crash, stack, log_end, log_tail);
  }
};

/// Receives an engine's events: on any thread of the driver, one call at a time.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  virtual void on_started(ProcessId process, pid_t pid) = 0;
  /// The whole gang failed to start; none of it runs.
  virtual void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) = 0;
  virtual void on_exited(const ProcessExit& exit) = 0;
  virtual void on_node_joined(const NodeInfo& node) = 0;
  /// The node will be taken away, and should get nothing new. Its processes go on meanwhile.
  virtual void on_node_draining(NodeId node, const std::string& why) = 0;
  /// The node has gone, with all its processes: no on_exited follows for them. `why` is empty if it
  /// was given back (see NodeSupply).
  virtual void on_node_left(NodeId node, const std::string& why) = 0;
  /// A process of another node has connected, and says who it is.
  virtual void on_process_connected(const std::shared_ptr<AsyncChannel>& channel,
                                    const Hello& hello) = 0;
  /// Whole lines that processes of another node have written, each behind its process's name.
  virtual void on_output(const std::string& lines) = 0;
};

/// Starts, watches and kills processes on the nodes of a run, and reports nodes that come and go.
/// Does nothing else. Any thread may call it, one at a time.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Starts the whole gang or none of it. Returns at once; on_started or on_start_failed follows.
  virtual std::vector<ProcessId> start(const std::vector<Placed>& gang) = 0;
  /// Kills the process and everything that it started, if it has not ended.
  virtual void kill(ProcessId process) = 0;
  /// The object that moves memory between nodes; null if there is only one node.
  virtual MemoryTransfers* transfers() = 0;
  /// The object that brings more nodes and gives some back; null if the nodes are always the same.
  virtual NodeSupply* node_supply() = 0;
  /// Kills every process that is not detached, and returns when none is left. No events follow for
  /// them.
  virtual void shutdown() = 0;
};

/// Makes the engine of a run. The engine reports to `events`; it reports the present nodes at once.
/// It may use the loop, which runs on its own thread and outlives the engine.
using MakeEngine = std::function<std::unique_ptr<Engine>(EventLoop& loop, EngineEvents& events)>;

}  // namespace manta
