#pragma once

#include <sys/types.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/core/resources.h"

namespace manta {

class EventLoop;

/// Names a process for as long as the run lasts; never used twice.
using ProcessId = uint64_t;

/// What an engine needs to start a process of the user's own binary.
struct ProcessSpec {
  std::string name;      ///< In logs, in `ps`, and before its lines at the driver.
  std::string log_path;  ///< Receives its standard output and standard error.
  /// What it holds from its start on. An engine that has several machines places it by them. A
  /// worker of the pool holds nothing yet: what it runs later does.
  Resources resources = {.cpus = 0};
  /// Empty for a worker, which connects back to the run and ends with it. Otherwise the process is
  /// detached: it belongs to nobody, outlives the run, and does what these bytes say (see
  /// core/detached.h).
  std::string detached_call = {};

  template <class Archive>
  void serialize(Archive& archive) {
    archive(name, log_path, detached_call);  // what the process itself needs
  }
};

struct ProcessExit {
  ProcessId process = 0;
  int code = 0;
  int signal = 0;          ///< 0 if it exited by itself.
  uint64_t lost_with = 0;  ///< Not 0: it ended with what had started it; the same for all of those.
  std::string crash = {};  ///< Where and of what, such as " in f(int): uncaught E: text", if known.
  std::string stack = {};  ///< The first lines of its stack, if it crashed.
  int64_t log_end = -1;    ///< Where its own output ends, if Manta's report of a crash follows it.
  /// "was killed by SIGSEGV (signal 11) in f(int)" or "exited with code 3".
  std::string describe() const;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process, code, signal, crash, stack, log_end);
  }
};

/// Where an engine tells what happened: on any thread of the driver, one call at a time.
class EngineEvents {
 public:
  virtual ~EngineEvents() = default;
  virtual void on_started(ProcessId process, pid_t pid) = 0;
  /// The whole gang; nothing of it runs.
  virtual void on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) = 0;
  virtual void on_exited(const ProcessExit& exit) = 0;
};

/// Places, watches and kills processes, and does nothing else. Any thread calls, one at a time.
class Engine {
 public:
  virtual ~Engine() = default;
  /// Everything that there is to share out.
  virtual Resources resources() const = 0;
  /// Starts all of the gang or none. Returns at once; on_started or on_start_failed follows.
  virtual std::vector<ProcessId> start(const std::vector<ProcessSpec>& gang) = 0;
  /// Kills the process and what it started, if it has not ended.
  virtual void kill(ProcessId process) = 0;
  /// Kills every process that is not detached and returns when none is left. Nothing is told of
  /// them.
  virtual void shutdown() = 0;
};

/// Makes the engine of a run. It tells `events` what happens; it may use the loop, which runs on a
/// thread of its own and outlives it.
using MakeEngine = std::function<std::unique_ptr<Engine>(EventLoop& loop, EngineEvents& events)>;

}  // namespace manta
