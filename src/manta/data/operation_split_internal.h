#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "manta/data/dataset.h"

namespace manta::data {

/// How many of each fragment's rows are test rows: the last ones of all, or so that each fragment
/// gives its share (the fragments with the largest remainders give one more).
std::vector<int64_t> last_rows(const std::vector<int64_t>& rows, int64_t test_rows);
std::vector<int64_t> allot(const std::vector<int64_t>& rows, int64_t test_rows);

/// As train_test_split with `options.stratify`: a fraction of the rows, or else so many.
std::pair<Dataset, Dataset> stratified_split(const Dataset& dataset, std::optional<double> fraction,
                                             int64_t rows, const TrainTestSplitOptions& options);

}  // namespace manta::data
