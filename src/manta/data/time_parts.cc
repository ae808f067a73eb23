#include <arrow/type.h>

#include <type_traits>

#include "manta/data/calendar_internal.h"
#include "manta/data/time_parts_internal.h"

namespace manta::data {
namespace {

// The seconds from begin to end, without whole days. Both are cut to their times of day before they
// are brought to the finer of their units, so that nothing can overflow.
template <class Begin, class End>
int32_t seconds_without_days(int64_t begin, int64_t end) {
  using Fine = std::conditional_t<(Begin::kOfSecond > End::kOfSecond), Begin, End>;
  int64_t difference = End::time_of_day(end) * (Fine::kOfSecond / End::kOfSecond) -
                       Begin::time_of_day(begin) * (Fine::kOfSecond / Begin::kOfSecond);
  return static_cast<int32_t>(static_cast<uint64_t>(Fine::time_of_day(difference)) /
                              Fine::kOfSecond);
}

// The same if both have one unit, with one division less.
template <class Both>
int32_t seconds_without_days(int64_t begin, int64_t end) {
  int64_t difference = 0;
  if (__builtin_sub_overflow(end, begin, &difference)) {
    return seconds_without_days<Both, Both>(begin, end);
  }
  return static_cast<int32_t>(static_cast<uint64_t>(Both::time_of_day(difference)) /
                              Both::kOfSecond);
}

}  // namespace

int64_t per_second(arrow::TimeUnit::type unit) {
  switch (unit) {
    case arrow::TimeUnit::SECOND:
      return 1;
    case arrow::TimeUnit::MILLI:
      return 1000;
    case arrow::TimeUnit::MICRO:
      return 1000000;
    default:
      return 1000000000;
  }
}

void seconds_of_difference(const int64_t* begin, int64_t begin_per_second, const int64_t* end,
                           int64_t end_per_second, int64_t n, int32_t* out) {
  with_unit(begin_per_second, [&](auto begin_unit) {
    with_unit(end_per_second, [&](auto end_unit) {
      using Begin = decltype(begin_unit);
      using End = decltype(end_unit);
      for (int64_t i = 0; i < n; ++i) {
        if constexpr (std::is_same_v<Begin, End>) {
          out[i] = seconds_without_days<Begin>(begin[i], end[i]);
        } else {
          out[i] = seconds_without_days<Begin, End>(begin[i], end[i]);
        }
      }
    });
  });
}

}  // namespace manta::data
