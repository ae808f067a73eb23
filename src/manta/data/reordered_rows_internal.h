#pragma once

#include <cstdint>
#include <span>

#include "manta/data/piece_internal.h"

namespace manta::data {

/// The rows of all batches, numbered from the first one on, in this order. At least one batch is
/// given, and all have the same columns. An error names the column.
std::shared_ptr<arrow::RecordBatch> reordered(const Batches& batches,
                                              std::span<const uint32_t> order);

}  // namespace manta::data
