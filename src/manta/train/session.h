#pragma once

#include <memory>
#include <string>

#include "manta/base/json.h"
#include "manta/data/shard.h"
#include "manta/train/checkpoint.h"

/// What a training loop calls. Outside one, every function here throws Error(kInvalidArgument).
namespace manta::train {

/// Which worker this is, and of which run.
struct Context {
  int world_rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Among the workers of this node.
  int local_world_size = 1;
  int node_rank = 0;  ///< Of this worker's node among those that have workers.
  int num_nodes = 1;
  std::string node_name;  ///< Its host's name.
  std::string run_name;
  /// On the driver's machine. Workers on other nodes see it only if it is on a file system that
  /// they share.
  std::string run_folder;
  int attempt = 0;  ///< How often the group was started before this.
};
Context get_context();

/// Gives metrics, and optionally a checkpoint, to the run. Every worker must call it equally often;
/// rank 0's metrics are kept. It returns as soon as the checkpoint's data is copied: the files are
/// written in the background, and the checkpoint is committed once every worker's files are
/// complete. A second report waits until every worker has made the first. If
/// CheckpointConfig::max_in_flight checkpoints are in flight, a report with a checkpoint also waits
/// for the oldest of them.
///
/// Metrics are an object: `report({{"loss", loss}, {"epoch", epoch}})`.
void report(const Json& metrics);
void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint);
/// Takes a checkpoint of another kind or run, and copies its files before the call returns. The
/// checkpoint's preprocessor is left out: the run keeps its own.
void report(const Json& metrics, const Checkpoint& checkpoint);
/// Takes this worker's own files, and copies them before the call returns. The run folder must not
/// be inside this folder.
void report(const Json& metrics, const std::string& checkpoint_folder);

/// Whether the loop should leave a last checkpoint and return, because the run is to end (Ctrl-C,
/// SIGTERM to the driver, RunHandle::stop) or a node with workers will be taken away:
///
///     if (train::should_stop()) return train::report(metrics, checkpoint);
///
/// Every worker must ask, at the same places of its loop. Then all get the same answer to the same
/// call, and no worker waits for one that has returned. A call costs a lock; ask after each step.
/// Once the answer is true, it stays true. The run ends as interrupted, and restore() resumes it
/// from the checkpoint. If a node is taken away, the run itself resumes on other nodes.
/// RunConfig::stop_grace says how long the loop may take. A run whose loop has not asked yet is
/// ended at once.
bool should_stop();

/// The checkpoint to resume from (after a failure, or with restore()) or to start from (with
/// resume_from_checkpoint); otherwise none.
Checkpoint get_checkpoint();

/// This worker's part of a data set that was given to the trainer.
DataShard get_dataset_shard(const std::string& name = "train");

}  // namespace manta::train
