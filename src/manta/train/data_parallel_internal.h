#pragma once

#include <string>

#include "manta/train/data_parallel_trainer.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// The run that these options describe. The trainer's framework then adds its own settings. Throws
/// Error(kInvalidArgument) if there is no loop; checks nothing else.
Training describe_loop(const std::string& trainer, DataParallelTrainerOptions options);
/// The same for a run that is on disk. Throws as restore_training.
Training restore_loop(const std::string& run_folder, const std::string& trainer,
                      DataParallelRestoreOptions options);

}  // namespace manta::train
