#pragma once

#include <memory>

namespace arrow {
class Array;
class Buffer;
}  // namespace arrow

namespace manta::data {

/// The bitmap, without an offset, of the rows that are null in neither column; nullptr if no row is
/// null. For columns that have a bitmap if they have nulls (no union, dictionary and the like).
std::shared_ptr<arrow::Buffer> valid_in_both(const arrow::Array& a, const arrow::Array& b);

}  // namespace manta::data
