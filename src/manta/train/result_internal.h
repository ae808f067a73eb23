#pragma once

#include <string>

#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/config.h"
#include "manta/train/journal_internal.h"

namespace manta::train {

/// The result of a run, made from its files.
Result result_of_run(const std::string& path, const History& history, const CheckpointStore& store,
                     RunOutcome outcome);

/// The same for a run that is not under way any more, by its folder or its address. Its outcome is
/// kFailed, with the journal's error, unless the journal has a better one. Throws as read_journal
/// and CheckpointStore; for an address, as RemoteRun. It does not take the run over.
Result read_result(const std::string& path, const CheckpointConfig& config);

}  // namespace manta::train
