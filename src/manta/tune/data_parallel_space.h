#pragma once

#include <map>
#include <string>

#include "manta/train/data_parallel_trainer.h"
#include "manta/tune/tunable.h"

namespace manta::tune {

/// The options of a DataParallelTrainer, or of a trainer that is based on it such as TorchTrainer,
/// as a Tuner searches them. An option that is not set keeps the trainer's own value;
/// `train_loop_config` is merged into the trainer's.
struct DataParallelSpace {
  Space train_loop_config = {};
  ScalingSpace scaling_config = {};
  std::map<std::string, Tunable<Dataset>> datasets = {};
  Tunable<AnyPreprocessor> preprocessor = {};
  Tunable<Checkpoint> resume_from_checkpoint = {};

  template <class Visit>
  void visit(Visit&& visit) {
    visit("train_loop_config", train_loop_config);
    visit("scaling_config", scaling_config);
    visit("datasets", datasets);
    visit("preprocessor", preprocessor);
    visit("resume_from_checkpoint", resume_from_checkpoint);
  }
};

/// A trainer, or its run, with these values, each of which must be fixed, and with this run_config
/// in place of its own.
train::Training override_training(train::Training training, const DataParallelSpace& fixed,
                                  const RunConfig& run_config);
DataParallelTrainer override_trainer(const DataParallelTrainer& trainer,
                                     const DataParallelSpace& fixed, const RunConfig& run_config);

}  // namespace manta::tune
