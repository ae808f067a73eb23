#pragma once

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <type_traits>
#include <utility>

namespace manta::detail {

template <class T>
inline constexpr bool is_whole = std::numeric_limits<T>::is_integer;  // also bool

/// Casts numbers one by one and notes whether any of them may have changed. Types are the integers,
/// bool (as a target), float, double, and torch's half-precision types.
///
/// What counts as exact: the same number. Between floating-point types rounding is exact enough,
/// as measurements are rounded anyway; a finite number that becomes infinite is not.
///
/// The note is cheap (for integers and for double to float: no branch, no comparison) and may be a
/// false alarm: `exact` decides.
template <class To, class From>
class ExactCast {
  using FromLimits = std::numeric_limits<From>;
  using ToLimits = std::numeric_limits<To>;
  static constexpr bool kToFlag = std::is_same_v<To, bool>;

 public:
  /// To holds every value of From: no check is needed.
  static constexpr bool kAlwaysExact =
      !kToFlag && (!is_whole<To> || is_whole<From>)&&FromLimits::digits <= ToLimits::digits &&
      (is_whole<From> ? ToLimits::is_signed || !FromLimits::is_signed
                      : FromLimits::max_exponent <= ToLimits::max_exponent);

  To operator()(From value) {
    To cast = plain(value);
    if constexpr (kAlwaysExact) {
    } else if constexpr (is_whole<From>) {
      // All values lie in [kLow, kLow + kSpan] if their distances from kLow have no bit above it.
      noted_ |= static_cast<uint64_t>(value) - kLow;
    } else if constexpr (std::is_same_v<To, float>) {
      // The sum carries into the sign's place if all bits of the exponent are set.
      uint32_t bits;
      std::memcpy(&bits, &cast, sizeof(bits));
      noted_ |= (bits & 0x7fff'ffffu) + 0x0080'0000u;
    } else {
      noted_ |= static_cast<uint64_t>(!exact(value));
    }
    return cast;
  }

  /// Whether some value so far may not be exact.
  bool doubtful() const {
    if constexpr (kAlwaysExact) {
      return false;
    } else if constexpr (is_whole<From>) {
      return (noted_ & ~kSpan) != 0;
    } else if constexpr (std::is_same_v<To, float>) {
      return (noted_ >> 31) != 0;
    } else {
      return noted_ != 0;
    }
  }

  /// Whether this value is unchanged by the cast.
  static bool exact(From value) {
    To cast = plain(value);
    if constexpr (!is_whole<From> && !is_whole<To>) {
      return !std::isfinite(value) || std::isfinite(static_cast<double>(cast));
    } else if constexpr (is_whole<From> && is_whole<To> && !kToFlag) {
      return std::in_range<To>(value);
    } else {
      // x86's long double has 64 bits of mantissa: it holds every integer, float and double.
      return static_cast<long double>(cast) == static_cast<long double>(value);
    }
  }

  /// The nearest value of To towards zero: fractions are cut off, values beyond To's range become
  /// its limit, NaN becomes 0. For bool: whether it is not 0. For floating point: rounded.
  static To nearest(From value) {
    if constexpr (is_whole<From> && is_whole<To> && !kToFlag) {
      if (std::in_range<To>(value)) return static_cast<To>(value);
      return std::cmp_less(value, 0) ? ToLimits::min() : ToLimits::max();
    } else {
      return plain(value);
    }
  }

 private:
  // Never undefined, whatever the value.
  static To plain(From value) {
    if constexpr (kToFlag) {
      return value != From(0);
    } else if constexpr (!is_whole<From> && is_whole<To>) {
      if (std::isnan(value)) return 0;
      // 2^digits is the first number beyond the range, and every floating-point type has it.
      constexpr From kEnd = static_cast<From>(ToLimits::max() / 2 + 1) * 2;
      if (value >= kEnd) return ToLimits::max();
      if (value <= static_cast<From>(ToLimits::min())) return ToLimits::min();
      return static_cast<To>(value);
    } else {
      return static_cast<To>(value);
    }
  }

  // The values that are certainly exact: the widest such range whose size is a power of two. A cast
  // to floating point is exact up to 2^digits; beyond that, only some values are exact.
  static constexpr int kDigits = kToFlag ? 1 : ToLimits::digits;
  static constexpr bool kNegative = FromLimits::is_signed && ToLimits::is_signed;
  static constexpr int kBits = kDigits + (kNegative ? 1 : 0);
  static constexpr uint64_t kSpan = kBits >= 64 ? ~uint64_t{0} : (uint64_t{1} << kBits) - 1;
  static constexpr uint64_t kLow = kNegative ? uint64_t{0} - (uint64_t{1} << kDigits % 64) : 0;

  uint64_t noted_ = 0;
};

}  // namespace manta::detail
