#include "manta/tune/data_parallel_space.h"

#include "manta/train/training_internal.h"

namespace manta::tune {

train::Training override_training(train::Training training, const DataParallelSpace& fixed,
                                  const RunConfig& run_config) {
  training.run = run_config;
  training.config = override_config(training.config, fixed.train_loop_config);
  training.scaling = override_scaling(training.scaling, fixed.scaling_config);
  for (const auto& [name, dataset] : fixed.datasets)
    training.datasets.insert_or_assign(name, dataset.value().value());
  if (auto preprocessor = fixed.preprocessor.value()) training.preprocessor = *preprocessor;
  if (auto from = fixed.resume_from_checkpoint.value()) training.resume_from_checkpoint = *from;
  return training;
}

DataParallelTrainer override_trainer(const DataParallelTrainer& trainer,
                                     const DataParallelSpace& fixed, const RunConfig& run_config) {
  return DataParallelTrainer(override_training(trainer.training(), fixed, run_config));
}

}  // namespace manta::tune
