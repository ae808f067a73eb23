#include "manta/train/trainer.h"

#include "manta/train/training_internal.h"

namespace manta {

RunHandle Trainer::start() const { return RunHandle(training()); }

Result Trainer::fit() const { return start().result(); }

bool Trainer::can_restore(const std::string& path) { return train::is_run_folder(path); }

}  // namespace manta
