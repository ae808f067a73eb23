#pragma once

#include <memory>

#include "manta/data/source_internal.h"

namespace arrow {
class Table;
}

namespace manta::data {

/// The source of `from_arrow`: rows in memory.
std::shared_ptr<Source> arrow_source(const std::shared_ptr<arrow::Table>& table);
/// The rows of such a source; null for any other.
std::shared_ptr<arrow::Table> rows_in_memory(const Source& source);

}  // namespace manta::data
