#pragma once

#include <string>
#include <vector>

#include "manta/base/json.h"

/// Metrics that are more than a number: `train::report({{"loss", loss}, {"weights",
/// train::histogram(values)}, {"sample", train::text("...")}})`. They are JSON like all metrics, so
/// the journal and result.json have them; trackers show them as histograms and texts.
namespace manta::train {

/// How values are distributed, in `buckets` of equal width between the least and the greatest. NaN
/// and infinities are counted as "not_finite", and are in no bucket. Costs two passes over the
/// values, and about 20 bytes for each bucket wherever the report is kept. Throws
/// Error(kInvalidArgument) unless 1 <= buckets <= 1000.
Json histogram(const std::vector<double>& values, int buckets = 30);
Json histogram(const std::vector<float>& values, int buckets = 30);

/// Words, such as what a model generated. TensorBoard shows them as Markdown.
Json text(const std::string& words);

}  // namespace manta::train
