#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/resources.h"
#include "manta/core/run_address_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

struct ZygoteOptions {
  RunAddress address;
  /// The folder that the zygote removes when this process has gone. It need not exist yet.
  std::string session_folder;
  std::vector<std::string> argv;  ///< The zygote's arguments, so that `ps` shows to which program
                                  ///< it belongs.
  double cpus = 0;                ///< The CPUs that the node offers to processes.
};

/// A zygote, as the process that started it sees it: this program, started once more.
class ZygoteProcess {
 public:
  /// Starts the zygote, with its orders, and does not wait for it. From now on, everything that
  /// this process makes in the session folder is removed, even if this process is killed the moment
  /// after.
  explicit ZygoteProcess(const ZygoteOptions& options);
  /// Ends and reaps it, if `reap` was not called.
  ~ZygoteProcess();
  ZygoteProcess(const ZygoteProcess&) = delete;

  /// The connection to the zygote; call it once.
  UniqueFd take_socket() { return std::move(socket_); }
  /// Waits until it has ended, and kills it after `patience`. Returns how it ended.
  std::string reap(std::chrono::milliseconds patience);
  void kill();
  /// The beginning of what it has written to its standard output and error.
  std::string said() const;

 private:
  UniqueFd socket_;
  UniqueFd output_;  // memory
  pid_t pid_ = 0;    // 0: it has been reaped
};

}  // namespace manta
