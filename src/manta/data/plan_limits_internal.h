#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "manta/base/json_input_internal.h"

/// The limits of a plan, for plans from untrusted writers, too.
namespace manta::data {

/// More rows than any data has, and few enough that sums and bytes of them do not overflow.
inline constexpr int64_t kMaxRows = int64_t{1} << 48;
/// Bytes of a column's or a function's name.
inline constexpr size_t kLongestName = 1 << 20;

/// Numbers of rows: none negative, and all together at most kMaxRows.
std::vector<int64_t> row_counts(const JsonFields& fields, const std::string& key);

}  // namespace manta::data
