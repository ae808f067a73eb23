#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manta/core/function.h"
#include "manta/core/resources.h"

namespace manta {

/// How a task is run. Every field has a default.
struct TaskOptions {
  /// Held while it runs. Default: one CPU.
  Resources resources = {};
  /// Run again if its process dies, up to so many times. 0: it is begun at most once.
  int max_retries = 3;
  /// Also run again if it throws, within the same limit.
  bool retry_exceptions = false;
  /// For messages. Default: the function's own name.
  std::string name = {};
};

/// How an actor is run. Every field has a default.
struct ActorOptions {
  /// Held while it lives. Default: nothing, as most actors mostly wait. (Resources that are given
  /// without `cpus` ask for one CPU, as everywhere.)
  Resources resources = {.cpus = 0};
  /// Constructed anew, with the same arguments, if its process dies, up to so many times.
  int max_restarts = 0;
  /// Run a call again that was under way when the process died. 0: it is begun at most once.
  int max_call_retries = 0;
  /// How many of its calls run at once, each on a thread of its own. With 1 they run one after the
  /// other, on the thread that constructed it. With more, the calls of one caller begin in the
  /// order in which they were made and end in any order; the object must guard what they share, and
  /// its CPUs are free for others while any of them waits in `get`. From 1 to kMaxConcurrency.
  int max_concurrency = 1;
  /// By which get_actor finds it. Default: none.
  std::string name = {};
  /// In `ps`, in messages, and before its lines at the driver. Default: the type's name and a
  /// number.
  std::string process_name = {};
  /// Its output is appended to this file, not through a symbolic link. Default: one in the run's
  /// log folder.
  std::string log_path = {};

  /// The threads start with the actor and live as long. This is more than a machine runs well.
  static constexpr int kMaxConcurrency = 1000;
};

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
  int32_t max_retries = 0;
  bool retry_exceptions = false;
  ObjectId parent = 0;  ///< The task that asked for it; 0 for the driver.
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
      archive(resources);
    }
    if (kind == TaskKind::kActorCreate) {
      archive(max_restarts, max_concurrency, actor_name, actor_type, process_name, log_path);
    }
  }
};

/// Whether so many calls of an actor may run at once.
inline bool is_valid_concurrency(int max_concurrency) {
  return max_concurrency >= 1 && max_concurrency <= ActorOptions::kMaxConcurrency;
}

/// Its name for messages: the one that it was given, or its function's. The latter may read the
/// program's symbols.
std::string task_name(const TaskSpec& spec);

}  // namespace manta
