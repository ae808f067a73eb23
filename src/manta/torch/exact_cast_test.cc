// Every pair of types, on the edges of all of them, against arithmetic that is wide enough.

#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <typeinfo>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/torch/exact_cast_internal.h"

namespace manta::detail {
namespace {

// Edges of ranges and of mantissas, and their neighbours, if From has them.
template <class From>
std::vector<From> edges() {
  std::vector<long double> wanted = {0,     1,     2,     0.5L,   2.7L,   300,
                                     65504, 65520, 65536, 1e300L, 3.4e38L};
  for (int power = 7; power <= 64; ++power) {
    long double edge = std::ldexp(1.0L, power);
    for (long double near : {-2.0L, -1.0L, 0.0L, 1.0L, 2.0L}) wanted.push_back(edge + near);
  }
  std::vector<From> values;
  for (long double number : wanted) {
    for (long double value : {number, -number}) {
      if (is_whole<From> && value != std::trunc(value)) continue;
      if (value < static_cast<long double>(std::numeric_limits<From>::lowest())) continue;
      if (value > static_cast<long double>(std::numeric_limits<From>::max())) continue;
      values.push_back(static_cast<From>(value));
    }
  }
  if constexpr (!is_whole<From>) {
    using Limits = std::numeric_limits<From>;
    for (From value : {Limits::max(), Limits::infinity(), Limits::denorm_min()}) {
      values.insert(values.end(), {value, -value});
    }
    values.push_back(Limits::quiet_NaN());
  }
  return values;
}

// The expected result, computed in another way.
template <class To, class From>
bool must_be_exact(From value) {
  auto wide = static_cast<long double>(value);
  using Limits = std::numeric_limits<To>;
  if (is_whole<To>) {
    return wide == std::trunc(wide) && wide >= static_cast<long double>(Limits::lowest()) &&
           wide <= static_cast<long double>(Limits::max());
  }
  if (!is_whole<From>) {
    // Beyond the largest number by half of its last digit, it is rounded to infinity.
    long double end = std::ldexp(2 - std::ldexp(1.0L, -Limits::digits), Limits::max_exponent - 1);
    return !std::isfinite(wide) || std::abs(wide) < end;
  }
  if (wide == 0) return true;
  int exponent = 0;
  long double mantissa = std::ldexp(std::frexp(wide, &exponent), Limits::digits);
  return mantissa == std::trunc(mantissa) && exponent <= Limits::max_exponent;
}

template <class To, class From>
void test_pair() {
  using Cast = ExactCast<To, From>;
  SCOPED_TRACE(str(demangle(typeid(From).name()), " to ", demangle(typeid(To).name())));
  for (From value : edges<From>()) {
    bool exact = must_be_exact<To>(value);
    EXPECT_EQ(Cast::exact(value), exact) << +value;
    EXPECT_TRUE(exact || !Cast::kAlwaysExact) << +value;
    Cast cast;
    To got = cast(value);
    EXPECT_TRUE(exact || cast.doubtful()) << +value;
    cast(From(1));
    EXPECT_TRUE(exact || cast.doubtful()) << +value;  // also together with other values
    auto wide = static_cast<long double>(value);
    EXPECT_TRUE(!exact || !is_whole<From> || static_cast<long double>(got) == wide) << +value;
    if (is_whole<To>) {
      auto nearest = static_cast<long double>(Cast::nearest(value));
      long double low = std::numeric_limits<To>::lowest(), high = std::numeric_limits<To>::max();
      long double expected = std::isnan(wide) ? 0 : std::clamp(std::trunc(wide), low, high);
      if (std::is_same_v<To, bool>) expected = wide != 0;
      EXPECT_EQ(nearest, expected) << +value;
    }
  }
}

template <class From>
void test_from() {
  test_pair<bool, From>();
  test_pair<uint8_t, From>();
  test_pair<int8_t, From>();
  test_pair<int16_t, From>();
  test_pair<int32_t, From>();
  test_pair<int64_t, From>();
  test_pair<c10::Half, From>();
  test_pair<c10::BFloat16, From>();
  test_pair<float, From>();
  test_pair<double, From>();
}

TEST(ExactCast, KnowsWhatIsExact) {
  test_from<int8_t>();
  test_from<int16_t>();
  test_from<int32_t>();
  test_from<int64_t>();
  test_from<uint8_t>();
  test_from<uint16_t>();
  test_from<uint32_t>();
  test_from<uint64_t>();
  test_from<float>();
  test_from<double>();
}

// A false alarm costs a second check of every row.
TEST(ExactCast, OrdinaryValuesRaiseNoDoubt) {
  ExactCast<float, int64_t> ids;
  ExactCast<float, double> measurements;
  ExactCast<uint8_t, int64_t> bytes;
  for (int i = 0; i < 256; ++i) {
    ids(i * 65536 - (1 << 24));
    measurements(i * 1e36 * (i % 2 ? 1 : -1));
    bytes(i);
  }
  EXPECT_FALSE(ids.doubtful());
  EXPECT_FALSE(measurements.doubtful());
  EXPECT_FALSE(bytes.doubtful());
}

}  // namespace
}  // namespace manta::detail
