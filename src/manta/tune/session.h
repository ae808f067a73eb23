#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "manta/base/json.h"
#include "manta/train/checkpoint.h"

/// What a trial calls. A trial is a call of a tuned function, or the training loop of a tuned
/// trainer. Outside of one, every function here throws Error(kInvalidArgument).
namespace manta::tune {

/// Which trial this is.
struct TrialContext {
  std::string trial_name;  ///< "trial_00003"
  /// The trial's own folder; that of a function exists after its first checkpoint. It is on the
  /// driver's machine, also if the experiment is stored at an address. A trial on another machine
  /// sees it only if the machines share the storage.
  std::string folder;
  Json config;
  int attempt = 0;  ///< How often it was started before this.
};
TrialContext get_context();

/// Gives metrics, and optionally a checkpoint, to the experiment: `report({{"loss", loss}})`. In a
/// function it returns when the experiment has decided that the trial goes on. If the experiment
/// stops the trial, this call does not return: it throws something that is not a std::exception,
/// which ends the function.
///
/// In a training loop it is the same as train::report.
void report(const Json& metrics);
void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint);

/// The checkpoint from which the trial goes on: its last one, if it was started before; otherwise
/// none. On a machine that does not share the storage, the first call fetches the checkpoint, and
/// keeps it as long as the trial runs.
Checkpoint get_checkpoint();

}  // namespace manta::tune
