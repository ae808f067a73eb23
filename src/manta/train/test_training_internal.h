#pragma once

#include <string>

#include "manta/train/train_loop.h"
#include "manta/train/training_internal.h"

namespace manta::train {

/// For tests: a run called "toy" in `storage`, with one worker, that prints nothing.
inline Training test_training(const std::string& storage, const TrainLoop& loop,
                              const Json& config = Json::object()) {
  Training training;
  training.trainer = "ToyTrainer";
  training.config = config;
  training.run.name = "toy";
  training.run.storage_path = storage;
  training.run.verbose = false;
  training.loop = loop.function();
  training.loop_takes_config = loop.takes_config();
  return training;
}

}  // namespace manta::train
