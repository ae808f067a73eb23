#pragma once

#include "manta/base/names_internal.h"
#include "manta/core/resources.h"
#include "manta/tune/trainable.h"
#include "manta/tune/tune_config.h"

namespace manta::tune {

/// How many trials an experiment has at a time.
struct TrialRoom {
  Resources total = {.cpus = 0};  ///< What they may hold together, on all nodes.
  int max_concurrent = 0;
};

/// Throws Error(kResources) if no node, also none that may come, can hold a trial of it.
void check_possible(const Trainable& function);

/// `function` is null if trainers are tuned. Of a function, nodes that may come count, too: its
/// trials then wait for them, which is what brings them.
TrialRoom room_for_trials(const TuneConfig& config, const Trainable* function);

}  // namespace manta::tune
