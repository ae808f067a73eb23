#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>

namespace manta::data {

/// How many of these units are in a second.
int64_t per_second(arrow::TimeUnit::type unit);

/// For each of `n` pairs of times: the seconds from one to the other, without the whole days. Each
/// time is a count of 1/`per_second` seconds since 1970 (1, 1000, 10^6 or 10^9).
void seconds_of_difference(const int64_t* begin, int64_t begin_per_second, const int64_t* end,
                           int64_t end_per_second, int64_t n, int32_t* out);

}  // namespace manta::data
