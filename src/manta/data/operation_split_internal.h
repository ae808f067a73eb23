#pragma once

#include <cstdint>
#include <vector>

namespace manta::data {

/// How many of each fragment's rows are test rows: the last ones of all, or so that each fragment
/// gives its share (the fragments with the largest remainders give one more).
std::vector<int64_t> last_rows(const std::vector<int64_t>& rows, int64_t test_rows);
std::vector<int64_t> allot(const std::vector<int64_t>& rows, int64_t test_rows);

}  // namespace manta::data
