#pragma once

#include <string>

#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/config.h"
#include "manta/train/journal_internal.h"

namespace manta::train {

/// What a run comes to, given what is on disk of it.
Result result_of_run(const std::string& path, const History& history, const CheckpointStore& store,
                     RunOutcome outcome);

/// The same of a run that goes on no more, by its folder or its address. Its outcome is kFailed
/// unless the journal says something better, with the error that it has. Throws as read_journal and
/// CheckpointStore; of an address, as RemoteRun, and takes nothing over.
Result read_result(const std::string& path, const CheckpointConfig& config);

}  // namespace manta::train
