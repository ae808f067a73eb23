#pragma once

#include <arrow/csv/options.h>

#include "manta/data/csv_internal.h"

namespace manta::data {

/// What Arrow's parser needs to know of a format. Line ends in quotes belong to values.
arrow::csv::ParseOptions parse_options(const CsvFormat& format);

}  // namespace manta::data
