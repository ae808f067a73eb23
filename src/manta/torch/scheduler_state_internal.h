#pragma once

#include <torch/optim.h>

#include <string>

#include "manta/base/json.h"
#include "manta/torch/lr_schedule.h"

namespace manta::detail {

/// A learning-rate scheduler as data: {"type": "StepLR", "step_count": 3, ...}. The learning rates
/// themselves belong to the optimizer. Throws Error(kInvalidArgument) unless it is a StepLR.
Json read_scheduler(const torch::optim::LRScheduler& scheduler);
Json read_scheduler(const torch::optim::ReduceLROnPlateauScheduler& scheduler);
Json read_scheduler(const StatefulScheduler& scheduler);

/// Makes the scheduler continue where the stored one was. A ReduceLROnPlateauScheduler also takes
/// over the stored options, as an optimizer does; the options of a StepLR cannot be changed, so
/// they must be the same. `what` begins the messages. Throws Error(kInvalidArgument) if type or
/// options do not fit, Error(kCorrupt) if the data is incomplete; the scheduler is unchanged then.
void write_scheduler(torch::optim::LRScheduler& scheduler, const Json& description,
                     const std::string& what);
void write_scheduler(torch::optim::ReduceLROnPlateauScheduler& scheduler, const Json& description,
                     const std::string& what);
void write_scheduler(StatefulScheduler& scheduler, const Json& description,
                     const std::string& what);

}  // namespace manta::detail
