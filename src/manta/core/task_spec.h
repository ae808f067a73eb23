#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manta/core/function.h"
#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// How a task is run. Every field has a default.
struct TaskOptions {
  /// Held while it runs. Default: one CPU.
  Resources resources = {};
  /// How often to retry if its process dies. 0: it begins at most once.
  int max_retries = 3;
  /// Also retry if it throws, within the same limit.
  bool retry_exceptions = false;
  /// For messages. Default: the function's own name.
  std::string name = {};
  /// On which of the nodes that have room the task runs. The strict placements are for groups: for
  /// a single task, kStrictPack means kPack and kStrictSpread means kSpread.
  Placement placement = Placement::kPack;
  /// Runs only on a node that has all of these: see Node::labels.
  Labels labels = {};
};

/// How an actor is run. Every field has a default.
struct ActorOptions {
  /// Held while it lives. Default: nothing, as most actors mostly wait. (If you give Resources
  /// without `cpus`, they include one CPU, as everywhere.)
  Resources resources = {.cpus = 0};
  /// How often to construct it anew, with the same arguments, if its process dies.
  int max_restarts = 0;
  /// How often to retry a call that was running when the process died. 0: it begins at most once.
  int max_call_retries = 0;
  /// How many of its calls run at once, each on a thread of its own. With 1 they run one after the
  /// other, on the thread that constructed it. With more, the calls of one caller begin in the
  /// order in which they were made and end in any order. The object must protect the data that its
  /// calls share. While any call waits in `get`, others may use the actor's CPUs. From 1 to
  /// kMaxConcurrency.
  int max_concurrency = 1;
  /// The name by which get_actor finds it. Default: none.
  std::string name = {};
  /// In `ps`, in messages, and before each line that the driver shows. Default: the type's name and
  /// a number.
  std::string process_name = {};
  /// The actor's output is appended to this file of the driver's machine, which must not be a
  /// symbolic link. Output of an actor on another node arrives after 100 ms or so. Default: a file
  /// in the run's log folder.
  std::string log_path = {};
  /// On which of the nodes that have room the actor lives. In an `actor_group` all must have the
  /// same.
  Placement placement = Placement::kPack;
  /// Lives only on a node that has all of these: see Node::labels.
  Labels labels = {};

  /// The threads start with the actor and live as long as it does. A machine does not run this many
  /// well.
  static constexpr int kMaxConcurrency = 1000;
};

}  // namespace manta

namespace manta::internal {

enum class TaskKind : uint8_t { kTask, kActorCreate, kActorCall };

/// A call on its way to the process that runs it.
struct TaskSpec {
  ObjectId id = 0;  ///< Of the result; for an actor's construction, of the actor.
  TaskKind kind = TaskKind::kTask;
  Function function;
  std::string name;
  Value args;
  std::vector<RefArgument> ref_args;
  Resources resources;
  Placement placement = Placement::kPack;
  Labels labels;
  int32_t max_retries = 0;
  bool retry_exceptions = false;
  ObjectId parent = 0;  ///< The task that submitted it; 0 for the driver.
  uint32_t depth = 0;   ///< How many such parents there are.
  ObjectId actor = 0;   ///< Of a call.
  int32_t max_restarts = 0;
  int32_t max_concurrency = 1;
  std::string actor_name;
  std::string actor_type;
  std::string process_name;
  std::string log_path;

  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, kind, function, name, args, ref_args, max_retries, retry_exceptions, parent, depth);
    if (kind == TaskKind::kActorCall) {
      archive(actor);
    } else {
      archive(resources, placement, labels);
    }
    if (kind == TaskKind::kActorCreate) {
      archive(max_restarts, max_concurrency, actor_name, actor_type, process_name, log_path);
    }
  }
};

/// Whether this many calls of an actor may run at once.
inline bool is_valid_concurrency(int max_concurrency) {
  return max_concurrency >= 1 && max_concurrency <= ActorOptions::kMaxConcurrency;
}

/// Its name for messages: the given one, or else that of its function. The latter may read the
/// program's symbols.
std::string task_name(const TaskSpec& spec);

}  // namespace manta::internal
