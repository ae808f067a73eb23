#include "manta/base/error.h"
#include "manta/data/time_parts_internal.h"

namespace manta::data {
namespace {

// The divisor is a template argument, so that the compiler multiplies instead of dividing.
template <int64_t kPerSecond>
struct Unit {
  static constexpr int64_t kDay = 86400 * kPerSecond;

  static int64_t time_of_day(int64_t time) {
    int64_t rest = time % kDay;
    return rest + ((rest >> 63) & kDay);
  }
  static int32_t seconds(int64_t begin, int64_t end) {
    auto difference =
        static_cast<int64_t>(static_cast<uint64_t>(end) - static_cast<uint64_t>(begin));
    return static_cast<int32_t>(static_cast<uint64_t>(time_of_day(difference)) / kPerSecond);
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

}  // namespace

void seconds_of_difference(const int64_t* begin, const int64_t* end, int64_t n, int64_t per_second,
                           int32_t* out) {
  with_unit(per_second, [&](auto unit) {
    for (int64_t i = 0; i < n; ++i) out[i] = unit.seconds(begin[i], end[i]);
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
