#pragma once

#include <map>
#include <string>

#include "manta/data/dataset.h"
#include "manta/preprocess/preprocessor.h"
#include "manta/train/data_parallel_trainer.h"
#include "manta/train/torch_config.h"
#include "manta/tune/data_parallel_space.h"

namespace manta {

struct TorchTrainerOptions {
  TrainLoop train_loop_per_worker = {};     ///< Required.
  Json train_loop_config = Json::object();  ///< Given to the loop.
  ScalingConfig scaling_config = {};
  RunConfig run_config = {};
  std::map<std::string, Dataset> datasets = {};  ///< For train::get_dataset_shard, by name.
  /// Fitted to the data set "train" and applied to all of them; part of each checkpoint.
  AnyPreprocessor preprocessor = {};
  TorchConfig torch_config = {};
  Checkpoint resume_from_checkpoint = {};  ///< What train::get_checkpoint returns at the start.
};

using TorchRestoreOptions = DataParallelRestoreOptions;

/// Runs one loop on every worker as a single data-parallel job, with process groups of PyTorch
/// between them (see train::prepare_model).
class TorchTrainer final : public DataParallelTrainer {
 public:
  /// Throws Error(kInvalidArgument) if the options contradict each other. Starts nothing.
  explicit TorchTrainer(TorchTrainerOptions options);
  /// As DataParallelTrainer::restore.
  static TorchTrainer restore(const std::string& path, TorchRestoreOptions options);

  /// Its options as a Tuner searches them.
  using Space = tune::DataParallelSpace;
  /// A copy with these values, each of which must be fixed, in place of its own.
  TorchTrainer apply(const Space& values, const RunConfig& run_config) const;

 private:
  explicit TorchTrainer(train::Training training);
};

namespace detail {

bool register_torch_backend();
/// Makes Trainer("torch") known to each program that includes this header.
inline const bool torch_backend_is_known = register_torch_backend();

}  // namespace detail

}  // namespace manta
