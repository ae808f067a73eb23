#pragma once

#include <memory>
#include <vector>

#include "manta/preprocess/learning.h"

namespace manta::preprocess {

/// A preprocessor that learns in a pass, and those that its rows go through before, in order.
struct PassMember {
  LearningPreprocessor* learner = nullptr;
  std::vector<const Preprocessor*> before;
};

/// Throws Error(kCancelled) if the fit is not wanted any more, as a StopCheck says.
void require_wanted(bool stopping);

/// One pass over a data set for all members. Returns their tallies. Reads only the columns that
/// they need. Throws Error(kInvalidArgument) if there are no rows.
std::vector<std::unique_ptr<Tally>> run_pass(const Dataset& dataset,
                                             const std::vector<PassMember>& members, int threads);

}  // namespace manta::preprocess
