#pragma once

#include <string>

#include "manta/train/session_internal.h"

namespace manta::train {

/// Runs in every worker of a TorchTrainer before its loop.
void prepare_torch_worker();

/// What an exception says, without the stack that libtorch appends to its own: dozens of lines that
/// say nothing about the user's program.
std::string torch_error_text(const std::exception& error);

/// What this worker's gradient counts for in the average over all workers: the rows of its slice
/// times the workers, over the rows of the step. 1 outside of a loop over data.
double gradient_weight(const std::optional<data::StepTaken>& step, int world_size);

}  // namespace manta::train
