#pragma once

#include <string>
#include <variant>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/engine_internal.h"
#include "manta/core/message_codec_internal.h"
#include "manta/core/task_spec.h"
#include "manta/core/which_nodes_internal.h"

namespace manta {

/// An error on its way to the process that asked.
struct ErrorInfo {
  ErrorKind kind = ErrorKind::kUserCode;
  std::string message;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(kind, message);
  }
};

/// How a task or an object ended: a value, or an error.
struct Outcome {
  bool ok = false;
  Value value;
  ErrorInfo error;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ok);
    if (ok) {
      archive(value);
    } else {
      archive(error);
    }
  }
  static Outcome failed(ErrorKind kind, std::string message) {
    return {false, {}, {kind, std::move(message)}};
  }
};

// ---- What a process sends to the hub. In order; the hub answers in order.

struct Hello {  // first on a connection
  std::string token;
  std::array<uint8_t, 20> build_id{};
  ProcessId process = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(token, build_id, process);
  }
};
struct Submit {  // the sender holds one reference to the result from now on
  TaskSpec spec;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(spec);
  }
};
struct Put {  // as for Submit: the sender holds one reference
  ObjectId id = 0;
  Value value;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, value);
  }
};
struct Fetch {  // each is answered by ObjectReady with the value, once it is there
  std::vector<ObjectId> ids;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ids);
  }
};
struct Watch {  // each is answered by ObjectReady without it
  std::vector<ObjectId> ids;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(ids);
  }
};
struct AddRef {
  ObjectId id = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id);
  }
};
struct Release {
  ObjectId id = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id);
  }
};
struct TaskDone {
  ObjectId id = 0;
  Outcome outcome;
  uint64_t run_nanoseconds = 0;
  bool wrote_output = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, outcome, run_nanoseconds, wrote_output);
  }
};
struct Blocked {  // the task that runs waits; `returned` were sent but not started
  std::vector<ObjectId> returned;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(returned);
  }
};
struct Unblocked {
  template <class Archive>
  void serialize(Archive&) {}
};
struct Returned {  // the answer to Recall
  std::vector<ObjectId> tasks;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(tasks);
  }
};
struct CancelTask {  // answered by Answer
  uint64_t request = 0;
  ObjectId id = 0;
  bool force = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, id, force);
  }
};
struct CreateNamed {  // a Submit that may be refused; answered by Answer
  uint64_t request = 0;
  TaskSpec spec;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, spec);
  }
};
struct CreateGroup {  // actors that start all or none
  std::vector<TaskSpec> specs;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(specs);
  }
};
struct KillActor {
  ObjectId id = 0;
  bool may_restart = false;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, may_restart);
  }
};
struct FindActor {  // answered by Answer; on success the sender holds a reference
  uint64_t request = 0;
  std::string name;
  std::string type;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, name, type);
  }
};
struct AskWhy {  // answered by Answer
  uint64_t request = 0;
  ObjectId id = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, id);
  }
};
struct AskNodes {  // answered by Answer
  uint64_t request = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request);
  }
};
struct AskPossible {  // answered by Answer: whether nodes could start all of these at once, if idle
  uint64_t request = 0;
  std::vector<std::pair<Resources, Labels>> asked;
  Placement placement = Placement::kPack;
  WhichNodes nodes = WhichNodes::kAll;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, asked, placement, nodes);
  }
};
struct StartDetached {  // answered by Answer
  uint64_t request = 0;
  TaskSpec spec;
  std::string log_path;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, spec, log_path);
  }
};

using ToHub = std::variant<Hello, Submit, Put, Fetch, Watch, AddRef, Release, TaskDone, Blocked,
                           Unblocked, Returned, CancelTask, CreateNamed, CreateGroup, KillActor,
                           FindActor, AskWhy, AskNodes, AskPossible, StartDetached>;

// ---- What the hub sends to a process.

struct Welcome {
  uint32_t index = 0;  // for the ids that the process chooses
  Resources most;      // of each resource, on one node
  NodeId node = 0;
  std::string host;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(index, most, node, host);
  }
};
struct Rejected {  // then the hub closes the connection
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(why);
  }
};
struct Run {
  TaskSpec spec;
  std::vector<Value> ref_values;
  int32_t attempt = 1;
  double cpus = 1;
  std::vector<int> gpu_ids;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(spec, ref_values, attempt, cpus, gpu_ids);
  }
};
/// Is written as a Run, but only refers to the task's specification, so that no copy is made for
/// the message.
struct RunOf {
  const TaskSpec& spec;
  const std::vector<Value>& ref_values;
  int32_t attempt;
  double cpus;
  const std::vector<int>& gpu_ids;
  void CEREAL_SAVE_FUNCTION_NAME(OutArchive& archive) const {
    archive(spec, ref_values, attempt, cpus, gpu_ids);
  }
};
struct ObjectReady {
  ObjectId id = 0;
  bool with_outcome = false;
  Outcome outcome;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, with_outcome);
    if (with_outcome) archive(outcome);
  }
};
struct Recall {  // give back what has not started
  template <class Archive>
  void serialize(Archive&) {}
};
struct CancelRunning {
  ObjectId id = 0;
  bool force = false;  // end the process if it is at this call
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, force);
  }
};
struct Answer {
  uint64_t request = 0;
  Outcome outcome;  // only success, or the error
  std::string text;
  uint64_t id = 0;
  std::vector<Node> nodes;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(request, outcome, text, id, nodes);
  }
};
struct Exit {  // finish what was sent before, then end
  template <class Archive>
  void serialize(Archive&) {}
};

/// Sent on the connection that a node's agent makes for a process: the agent has passed on a
/// message with memory. It is not one of ToHub, which the process itself sends.
inline constexpr uint16_t kPassedOn = 0xffff;

using FromHub =
    std::variant<Welcome, Rejected, Run, ObjectReady, Recall, CancelRunning, Answer, Exit>;

}  // namespace manta
