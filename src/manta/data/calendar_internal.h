#pragma once

#include <cstdint>

#include "manta/base/error_internal.h"

namespace manta::data {

/// Rounded towards the past, as a calendar does.
constexpr int64_t floor_divide(int64_t a, int64_t b) { return a / b - (a % b < 0 ? 1 : 0); }

/// A time as a count of 1/kPerSecond seconds since 1970. The divisor is a template argument, so
/// that the compiler multiplies instead of dividing.
template <int64_t kPerSecond>
struct TimeCount {
  static constexpr int64_t kOfSecond = kPerSecond;
  static constexpr int64_t kDay = 86400 * kPerSecond;

  static int64_t time_of_day(int64_t time) {
    int64_t rest = time % kDay;
    return rest + ((rest >> 63) & kDay);
  }
  static int64_t day(int64_t time) { return floor_divide(time, kDay); }
};

/// Calls `loop` with the TimeCount of 1, 1000, 10^6 or 10^9 in a second.
template <class Loop>
void with_unit(int64_t per_second, Loop&& loop) {
  switch (per_second) {
    case 1:
      return loop(TimeCount<1>());
    case 1000:
      return loop(TimeCount<1000>());
    case 1000000:
      return loop(TimeCount<1000000>());
    default:
      MANTA_CHECK(per_second == 1000000000, "an unknown unit of time");
      return loop(TimeCount<1000000000>());
  }
}

/// A day of the Gregorian calendar, extended to the time before its introduction.
struct CalendarDay {
  int64_t year = 0;
  int64_t month = 0;  ///< 1 to 12.
  int64_t day = 0;    ///< 1 to 31.
};

/// The day with this number of days since 1970. In the computation, years begin in March, so that a
/// leap day is the last day of its year; 400 years have 146097 days.
constexpr CalendarDay calendar_day(int64_t days) {
  int64_t from_march_0 = days + 719468;
  int64_t era = floor_divide(from_march_0, 146097);
  int64_t of_era = from_march_0 - era * 146097;
  int64_t year_of_era = (of_era - of_era / 1460 + of_era / 36524 - of_era / 146096) / 365;
  int64_t of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
  int64_t month = (5 * of_year + 2) / 153;  // March is 0
  bool next_year = month >= 10;
  return {era * 400 + year_of_era + (next_year ? 1 : 0), month + (next_year ? -9 : 3),
          of_year - (153 * month + 2) / 5 + 1};
}

/// The number of days from 1970 to the first of January of this year.
constexpr int64_t first_day_of(int64_t year) {
  int64_t before = year - 1;
  return 365 * (year - 1970) + floor_divide(before, 4) - floor_divide(before, 100) +
         floor_divide(before, 400) - 477;
}

constexpr int64_t weekday(int64_t days) {  // Monday is 0; 1970 began on a Thursday
  int64_t rest = (days + 3) % 7;
  return rest + ((rest >> 63) & 7);
}

/// Week 1 is the week of the year's first Thursday.
constexpr int64_t iso_week(int64_t days) {
  int64_t thursday = days - weekday(days) + 3;
  return (thursday - first_day_of(calendar_day(thursday).year)) / 7 + 1;
}

}  // namespace manta::data
