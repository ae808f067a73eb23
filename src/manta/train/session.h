#pragma once

#include <memory>
#include <string>

#include "manta/base/json.h"
#include "manta/data/shard.h"
#include "manta/train/checkpoint.h"

/// What a training loop calls. Outside of one, every function here throws Error(kInvalidArgument).
namespace manta::train {

/// Which worker this is, of which run.
struct Context {
  int world_rank = 0;
  int world_size = 1;
  int local_rank = 0;  ///< Among the workers of this host.
  int local_world_size = 1;
  std::string run_name;
  std::string run_folder;  ///< Shared by all workers.
  int attempt = 0;         ///< How often the group was started before.
};
Context get_context();

/// Hands metrics, and if there is one a checkpoint, to the run. Every worker must call it equally
/// often; rank 0's metrics are kept. Returns as soon as the checkpoint's data is copied: files are
/// written in the background, and the checkpoint counts once every worker's files are complete.
/// A second report waits until every worker has made the first; and one with a checkpoint, while
/// CheckpointConfig::max_in_flight of them are on their way, for the oldest of these.
///
/// Metrics are an object: `report({{"loss", loss}, {"epoch", epoch}})`.
void report(const Json& metrics);
void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint);
/// Files of this worker's own making: they are copied before the call returns.
void report(const Json& metrics, const std::string& checkpoint_folder);

/// The checkpoint from which this run goes on: after a failure or with restore(); or else none.
Checkpoint get_checkpoint();

/// This worker's part of a data set that was given to the trainer.
DataShard get_dataset_shard(const std::string& name = "train");

}  // namespace manta::train
