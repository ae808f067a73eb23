#pragma once

#include <map>
#include <string>
#include <variant>
#include <vector>

#include "manta/core/engine_internal.h"
#include "manta/core/messages_internal.h"
#include "manta/core/run_address_internal.h"
#include "manta/io/channel_internal.h"

namespace manta {

// The zygote is this program, started once and held in `manta::init` with one thread and every
// library loaded. It forks the workers, is their parent, tells the driver when they end, and ends
// them when the driver ends. Zygote and workers ignore SIGTERM: systemd and Slurm send it to all
// processes at once when a machine or a job ends, and the driver, or the node's agent, decides what
// that means.

/// The variable that tells a newly started program that it is not the driver: the number of the
/// descriptor from which it reads its StartAs.
inline constexpr const char* kStartVariable = "MANTA_START_FD";

/// What a newly started program is.
struct StartAs {
  enum Role : uint8_t { kZygote, kWorker, kDetached };
  Role role = kZygote;
  RunAddress address;
  int driver_pid = 0;                  // of a zygote: it ends when this process ends
  std::string session_folder;          // of a zygote: removed when the driver has gone
  std::array<uint8_t, 20> build_id{};  // of the program that starts it
  ProcessId process = 0;               // of a worker
  ProcessSpec spec;                    // of a worker or a detached process
  template <class Archive>
  void serialize(Archive& archive) {
    archive(role, driver_pid, address, session_folder, build_id, process, spec);
  }
};

// ---- From the driver to the zygote
struct StartGang {
  std::vector<std::pair<ProcessId, ProcessSpec>> gang;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(gang);
  }
};
struct KillProcess {  ///< And what it started.
  ProcessId process = 0;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(process);
  }
};
using ToZygote = std::variant<StartAs, StartGang, KillProcess>;

// ---- From the zygote to the driver
struct ZygoteReady {
  std::array<uint8_t, 20> build_id{};
  template <class Archive>
  void serialize(Archive& archive) {
    archive(build_id);
  }
};
struct GangStarted {
  std::vector<std::pair<ProcessId, int>> pids;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(pids);
  }
};
struct GangFailed {
  std::vector<ProcessId> gang;
  std::string why;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(gang, why);
  }
};
struct ZygoteNotice {
  std::string text;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(text);
  }
};
using FromZygote = std::variant<ZygoteReady, GangStarted, GangFailed, ProcessExit, ZygoteNotice>;

/// Serves the driver at the other end of `channel` until it closes; then ends every worker, removes
/// the session's folder and exits. If it fails while the driver lives, the folder stays.
[[noreturn]] void run_zygote(Channel& channel, const StartAs& start, char** argv);

/// Makes this process what `spec` says: name and log file. Its output is line-buffered from here
/// on.
void become(const ProcessSpec& spec);

/// Every whole line that this process writes to standard output, through C's streams or C++'s, goes
/// to the file at once: nothing is lost if the process crashes, and a reader who follows the file
/// is up to date.
void line_buffer_output();

/// From here on SIGTERM does nothing to this process and those that it forks; a program that one of
/// them executes gets the default again.
void outlive_sigterm();

/// How many threads this process has.
int count_threads();

/// A copy of this process's environment with some variables replaced or added and others left out,
/// for execve.
class Environment {
 public:
  explicit Environment(const std::map<std::string, std::string>& changes,
                       const std::vector<std::string>& without = {});
  char** data() { return pointers_.data(); }

 private:
  std::vector<std::string> entries_;
  std::vector<char*> pointers_;
};

}  // namespace manta
