#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <string>
#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/io/unique_fd.h"
#include "manta/torch/gloo_group_internal.h"
#include "manta/torch/hosts_group_internal.h"
#include "manta/torch/process_group_internal.h"
#include "manta/torch/shm_group_internal.h"

// For tests of several ranks.

namespace manta::train {

/// kHosts: two hosts on this machine, with the even and the odd ranks.
enum class BackendKind { kShm, kGloo, kHosts };

/// The arguments of a rank's process.
struct Seat {
  int rank = 0;
  int size = 0;
  int region = -1;         ///< Shared memory for the group.
  int host_region = -1;    ///< For the ranks of its host.
  std::string store = {};  ///< A file for Gloo's store.
  std::chrono::milliseconds timeout{30000};
  WaitWatch* watch = nullptr;
};

/// The group's backend, in a rank's process.
c10::intrusive_ptr<c10d::Backend> join(BackendKind kind, const Seat& seat);

/// A group's ranks as forked processes that run `body` with one thread for torch. They end at the
/// latest with this object, or with this process.
class RankProcesses {
 public:
  RankProcesses(int size, const std::function<void(const Seat&)>& body);
  ~RankProcesses();
  RankProcesses(const RankProcesses&) = delete;

  void signal(int rank, int number);
  /// Waits for the end of the rank: "" if `body` returned, "<kind>: <message>" if it threw an
  /// Error, "<message>" if it threw something else, "signal <number>" if it was killed.
  std::string outcome(int rank);

 private:
  struct Process {
    pid_t pid = 0;
    UniqueFd text = UniqueFd();
    bool ended = false;
    std::string outcome = {};
  };
  TemporaryFolder folder_;
  UniqueFd region_;
  std::vector<UniqueFd> host_regions_;
  std::vector<Process> processes_;
};

}  // namespace manta::train
