#pragma once

#include "manta/base/names_internal.h"
#include "manta/tune/controller_internal.h"
#include "manta/tune/trainable.h"
#include "manta/tune/tune_config.h"

namespace manta::tune {

/// Throws Error(kResources) if no node, also none that may come, can hold a trial of it.
void check_possible(const Trainable& function);

/// `function` is null if trainers are tuned. Of a function, nodes that may come count, too: its
/// trials then wait for them, which is what brings them.
TrialRoom room_for_trials(const TuneConfig& config, const Trainable* function);

/// Whether that may change: on one machine it does not.
bool room_changes();

}  // namespace manta::tune
