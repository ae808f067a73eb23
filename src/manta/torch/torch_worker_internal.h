#pragma once

#include <string>

#include "manta/train/session_internal.h"

namespace manta::train {

/// Runs in every worker of a TorchTrainer before its loop.
void prepare_torch_worker();

/// The text of an exception, without the stack that libtorch appends to its own exceptions: dozens
/// of lines that say nothing about the user's program.
std::string torch_error_text(const std::exception& error);

/// The weight of this worker's gradient in the average over all workers: the rows of its slice
/// times the number of workers, divided by the rows of the step. 1 outside a loop over data.
double gradient_weight(const std::optional<data::StepTaken>& step, int world_size);

}  // namespace manta::train
