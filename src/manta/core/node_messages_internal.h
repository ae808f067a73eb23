#pragma once

#include <array>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "manta/core/engine_internal.h"
#include "manta/core/messages_internal.h"

namespace manta {

// The messages between the driver and the agents of its other nodes, over TLS with the run's token
// as key.

// ---- The first message on a connection: it names the sender

struct AgentHello {
  std::array<uint8_t, 20> build_id{};
  std::string started_as;  ///< The name that the node source gave it.
  NodeInfo node;  ///< Without an id. Its address includes the port at which it serves memory.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(build_id, started_as, node);
  }
};
struct ReadMemory {  ///< Answered by this many bytes, without a frame; then the connection is
                     ///< closed.
  uint64_t number = 0;
  uint64_t size = 0;
  bool encrypted = true;  ///< From the run's options; both ends must agree.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number, size, encrypted);
  }
};
/// `Hello` comes from a process; its agent passes it on with the run's token.
using FirstWord = std::variant<AgentHello, Hello, ReadMemory>;

// ---- From the driver to an agent

struct AgentWelcome {
  NodeId node = 0;
  int64_t fence_ms = 0;  ///< After this long without a message, the agent ends its processes and
                         ///< itself.
  bool show_output = true;
  bool fold_repeated_lines = true;
  bool encrypt_objects = true;  ///< See ClusterOptions.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(node, fence_ms, show_output, fold_repeated_lines, encrypt_objects);
  }
};
struct AgentRejected {  // and then closed
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(why);
  }
};
struct AgentPing {  // answered by AgentPong
  template <class Archive>
  void serialize(Archive&) {}
};
struct AgentStart {  // all or none
  std::vector<std::pair<ProcessId, ProcessSpec>> gang;
  std::vector<ProcessId> logs_wanted;  ///< The output of these is sent as AgentLog.
  template <class Archive>
  void serialize(Archive& archive) {
    archive(gang, logs_wanted);
  }
};
struct AgentKill {
  ProcessId process = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process);
  }
};
struct AgentFetch {  // answered by AgentFetched
  uint64_t request = 0;
  uint64_t number = 0;
  uint64_t size = 0;
  std::string address;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, number, size, address);
  }
};
struct AgentDrop {
  uint64_t number = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(number);
  }
};
struct AgentEnd {  // the run is over
  template <class Archive>
  void serialize(Archive&) {}
};
using ToAgent = std::variant<AgentWelcome, AgentRejected, AgentPing, AgentStart, AgentKill,
                             AgentFetch, AgentDrop, AgentEnd>;

// ---- From an agent to the driver

struct AgentPong {
  template <class Archive>
  void serialize(Archive&) {}
};
struct AgentStarted {
  ProcessId process = 0;
  int pid = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process, pid);
  }
};
struct AgentStartFailed {
  std::vector<ProcessId> gang;
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(gang, why);
  }
};
struct AgentFetched {
  uint64_t request = 0;
  std::string why;  // empty: the memory is there
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, why);
  }
};
struct AgentOutput {
  std::string lines;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(lines);
  }
};
struct AgentLog {  // the next bytes of what a process has written; all come before its ProcessExit
  ProcessId process = 0;
  std::string bytes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process, bytes);
  }
};
struct AgentDraining {
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(why);
  }
};
using FromAgent = std::variant<AgentPong, AgentStarted, AgentStartFailed, ProcessExit, AgentFetched,
                               AgentOutput, AgentDraining, AgentLog>;

// ---- What starts an agent

/// The orders of a newly started agent. It reads them from its standard input or a file, never from
/// a command line or an environment, which other users can read.
struct AgentOrder {
  std::string host;  ///< The driver's address, numeric.
  uint16_t port = 0;
  std::string token;
  std::array<uint8_t, 20> build_id{};
  std::string started_as;

  /// Converts to one line of text, and back. Throws Error(kInvalidArgument) if the text is not an
  /// order.
  std::string text() const;
  static AgentOrder parse(const std::string& text);
  /// The first line that can be read there; bytes after it are not read. Throws Error(kTimeout) if
  /// the line does not come in time.
  static std::string read_line(int fd, std::chrono::milliseconds patience);
};

/// AgentOrder::started_as for agents that one Slurm command starts on several nodes: each gets the
/// name of its node.
inline constexpr const char* kSlurmNode = "%slurm-node";

/// Makes a program a node's agent: "stdin", or "file:" and the path of a file, from which the
/// AgentOrder is read.
inline constexpr const char* kNodeVariable = "MANTA_NODE";
/// Its value for an agent that reads standard input, and ends when that does.
inline constexpr const char* kHeldByInput = "held-stdin";

/// Does not return: the process ends with the run, or when it has not heard from the driver for too
/// long.
[[noreturn]] void run_node_agent(const std::string& order_from, std::vector<std::string> argv);

}  // namespace manta
