#pragma once

#include <memory>
#include <string>

#include "manta/data/piece_internal.h"

/// Rows on their way from one data reader to another: Arrow's format of record batches.
namespace manta::data {

/// At least one batch; all have one schema, and no values outside of them (plain_columns).
std::string rows_to_bytes(const Batches& batches);
/// Throws Error(kCorrupt) unless they are such rows: every value is checked.
std::shared_ptr<arrow::RecordBatch> rows_from_bytes(const std::shared_ptr<arrow::Schema>& schema,
                                                    std::string bytes);

std::string schema_to_bytes(const arrow::Schema& schema);
std::shared_ptr<arrow::Schema> schema_from_bytes(std::string bytes);

}  // namespace manta::data
