#pragma once

#include <string>

#include "manta/train/data_parallel_trainer.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// The run that these options amount to, to which the framework of that trainer adds what is its
/// own. Throws Error(kInvalidArgument) if there is no loop; nothing else is checked.
Training describe_loop(const std::string& trainer, DataParallelTrainerOptions options);
/// The same of a run that is on disk. Throws as restore_training.
Training restore_loop(const std::string& run_folder, const std::string& trainer,
                      DataParallelRestoreOptions options);

}  // namespace manta::train
