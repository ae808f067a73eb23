#pragma once

#include <chrono>
#include <string>

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// How a run is set up. Every field has a default.
struct InitOptions {
  MachineResources resources =
      {};  ///< What tasks and actors may share. Default: what the machine or its cgroup has.
  bool log_to_driver =
      true;  ///< Show workers' output on the driver's standard error, after their names.
  /// Show a line that several workers print only once, and a second later how often it has come
  /// since: "(rank-1) text [repeated 12x across workers]". Log files keep every line.
  bool fold_repeated_lines = true;
  /// The folder for workers' output, one file each, kept after the run. Default: a temporary
  /// folder, removed at the end.
  std::string log_folder = {};
  /// Holds the run's sockets and temporary files. Default: the system's temporary folder.
  std::string temporary_folder = {};
  /// How long actors may take to finish and to run their destructors when the run ends.
  std::chrono::milliseconds actor_grace{1000};
  /// Other machines to use, e.g. "hosts:n1,n2", "slurm", or "auto" for the cluster that the program
  /// was started in, if any: see docs/clusters.md. If the environment has MANTA_CLUSTER, that is
  /// used instead. Default: this machine alone.
  std::string cluster = {};
  /// Labels of this machine, for tasks and actors that ask for a node with them. Other machines
  /// have those of MANTA_NODE_LABELS in the environment of their agents ("zone=a,disk=ssd").
  Labels labels = {};
};

/// Call it first in main. It returns in the program that the user started; Manta can be used then.
/// In the processes that Manta starts from the same binary, init never returns: they do their work
/// and exit.
///
/// init takes a few milliseconds: it starts this binary once more as the zygote, which forks
/// workers when they are needed. With a cluster it returns when the nodes have joined. Throws Error
/// if it was called before, if the options are impossible, or if a node does not join.
void init(int argc, char** argv, const InitOptions& options = {});

/// Ends the run: every process that it started, unless detached, and every temporary file. Also
/// called at normal exit. Remaining references have no value any more. If the program dies instead,
/// its processes end with it.
void shutdown();

/// True between init and shutdown, and in workers.
bool is_initialized();

/// All resources that tasks and actors share.
Resources cluster_resources();
/// The resources that nobody holds at the moment.
Resources available_resources();

}  // namespace manta
