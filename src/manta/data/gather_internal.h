#pragma once

#include <cstdint>
#include <memory>
#include <span>

namespace arrow {
class Array;
}

namespace manta::data {

/// The column's values at these rows, in this order. `nulls`: whether there are any among them. For
/// numbers, times and bools without nulls several times as fast as Arrow's kernels.
std::shared_ptr<arrow::Array> gather(const arrow::Array& column, std::span<const uint32_t> rows,
                                     bool nulls);

}  // namespace manta::data
