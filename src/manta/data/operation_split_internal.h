#pragma once

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

#include "manta/data/dataset.h"

namespace manta::data {

/// How many of each fragment's rows are test rows: last_rows takes the last rows of all; allot
/// takes a share of each fragment (the fragments with the largest remainders give one row more).
std::vector<int64_t> last_rows(const std::vector<int64_t>& rows, int64_t test_rows);
std::vector<int64_t> allot(const std::vector<int64_t>& rows, int64_t test_rows);

/// Like train_test_split with `options.stratify`: the test rows are a fraction of the rows, or a
/// number of rows.
std::pair<Dataset, Dataset> stratified_split(const Dataset& dataset, std::optional<double> fraction,
                                             int64_t rows, const TrainTestSplitOptions& options);

}  // namespace manta::data
