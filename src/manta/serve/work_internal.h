#pragma once

#include <functional>
#include <vector>

#include "manta/serve/replica_frames_internal.h"

namespace manta::serve {

/// Answers requests: makes rows from each, predicts requests with the same columns together, in
/// calls of at most `max_rows` rows (a single request may have more), and splits the predictions
/// again. An error of one request affects only its own answer: if predicting some together fails,
/// each is predicted by itself. Gives an answer for every request, in their order.
std::vector<WorkAnswer> answer_requests(const std::vector<WorkItem>& items, HttpAdapter adapter,
                                        const std::function<Batch(const Batch&)>& predict,
                                        int max_rows);

}  // namespace manta::serve
