#pragma once

#include "manta/base/names_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/trainable.h"
#include "manta/tune/tune_config.h"

namespace manta::tune {

/// Throws Error(kResources) if no node, present or possible, can hold a trial of the function.
void check_possible(const Trainable& function);

/// `function` is null if trainers are tuned. For a function, nodes that may come count, too: its
/// trials wait for them, and this wait is what brings the nodes.
TrialRoom room_for_trials(const TuneConfig& config, const Trainable* function);

/// Whether the room may change: on one machine it does not.
bool room_changes();

}  // namespace manta::tune
