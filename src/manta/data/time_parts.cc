#include <arrow/type.h>

#include <type_traits>

#include "manta/base/error_internal.h"
#include "manta/data/time_parts_internal.h"

namespace manta::data {
namespace {

// The divisor is a template argument, so that the compiler multiplies instead of dividing.
template <int64_t kPerSecond>
struct Unit {
  static constexpr int64_t kOfSecond = kPerSecond;
  static constexpr int64_t kDay = 86400 * kPerSecond;

  static int64_t time_of_day(int64_t time) {
    int64_t rest = time % kDay;
    return rest + ((rest >> 63) & kDay);
  }
  static int32_t hour(int64_t time) {
    return static_cast<int32_t>(static_cast<uint64_t>(time_of_day(time)) / (3600 * kPerSecond));
  }
  static int32_t day_of_week(int64_t time) {
    int64_t day = time / kDay - (time % kDay < 0 ? 1 : 0);
    int64_t rest = (day + 3) % 7;  // 1970 began on a Thursday
    return static_cast<int32_t>(rest + ((rest >> 63) & 7));
  }
};

template <class Loop>
void with_unit(int64_t per_second, Loop&& loop) {
  switch (per_second) {
    case 1:
      return loop(Unit<1>());
    case 1000:
      return loop(Unit<1000>());
    case 1000000:
      return loop(Unit<1000000>());
    default:
      MANTA_CHECK(per_second == 1000000000, "an unknown unit of time");
      return loop(Unit<1000000000>());
  }
}

// From begin to end without whole days. Both are cut to their times of day before they are brought
// to the finer of their units, so that nothing can overflow.
template <class Begin, class End>
int32_t seconds_without_days(int64_t begin, int64_t end) {
  using Fine = std::conditional_t<(Begin::kOfSecond > End::kOfSecond), Begin, End>;
  int64_t difference = End::time_of_day(end) * (Fine::kOfSecond / End::kOfSecond) -
                       Begin::time_of_day(begin) * (Fine::kOfSecond / Begin::kOfSecond);
  return static_cast<int32_t>(static_cast<uint64_t>(Fine::time_of_day(difference)) /
                              Fine::kOfSecond);
}

// The same for one unit, with one division less.
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

void hours_of_day(const int64_t* times, int64_t n, int64_t per_second, int32_t* out) {
  with_unit(per_second, [&](auto unit) {
    for (int64_t i = 0; i < n; ++i) out[i] = unit.hour(times[i]);
  });
}

void days_of_week(const int64_t* times, int64_t n, int64_t per_second, int32_t* out) {
  with_unit(per_second, [&](auto unit) {
    for (int64_t i = 0; i < n; ++i) out[i] = unit.day_of_week(times[i]);
  });
}

}  // namespace manta::data
