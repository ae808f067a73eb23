#pragma once

#include <memory>

#include "manta/data/source_internal.h"

namespace arrow {
class Table;
}

namespace manta::data {

/// Rows in memory, of `from_arrow`.
std::shared_ptr<Source> arrow_source(const std::shared_ptr<arrow::Table>& table);
/// The rows of such a source; null of any other.
std::shared_ptr<arrow::Table> rows_in_memory(const Source& source);

}  // namespace manta::data
