#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/json.h"

namespace arrow {
class Array;
}

namespace manta::train {

/// A column, before its type is known: a value for each row, or null.
using Cells = std::vector<Json>;
using Columns = std::map<std::string, Cells>;

/// The values of an object as cells of row `row` out of `rows`; those inside objects are named
/// "outer/inner".
void add_cells(const Json& json, const std::string& prefix, size_t row, size_t rows,
               Columns& columns);

/// int64, double, bool or text, whichever holds all of the cells; otherwise JSON as text.
std::shared_ptr<arrow::Array> array_of(const Cells& cells);

}  // namespace manta::train
