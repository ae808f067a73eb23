#include <arrow/api.h>

#include <bit>
#include <boost/multiprecision/cpp_int.hpp>
#include <cmath>

#include "manta/preprocess/exact_moments_internal.h"

namespace manta::preprocess {
namespace {

using boost::multiprecision::cpp_int;

cpp_int whole(unsigned __int128 value) {
  cpp_int result = static_cast<uint64_t>(value >> 64);
  result <<= 64;
  return result + static_cast<uint64_t>(value);
}

// numerator / denominator * 2^exponent, rounded once unless it is subnormal.
double rounded(cpp_int numerator, const cpp_int& denominator, int exponent) {
  if (numerator == 0) return 0;
  bool negative = numerator < 0;
  if (negative) numerator = -numerator;
  int bits = static_cast<int>(msb(numerator)) - static_cast<int>(msb(denominator));
  int shift = 66 - bits;  // a quotient of 66 or 67 bits
  cpp_int rest, quotient;
  if (shift >= 0) {
    divide_qr(cpp_int(numerator << shift), denominator, quotient, rest);
  } else {
    divide_qr(numerator, cpp_int(denominator << -shift), quotient, rest);
  }
  // Shortens to 62 bits, of which the last stands for all lower bits: then the conversion rounds
  // only once.
  bool inexact = rest != 0 || (quotient & 63) != 0;
  auto top = static_cast<uint64_t>(cpp_int(quotient >> 6));
  double result =
      std::ldexp(static_cast<double>((top << 1) | (inexact ? 1 : 0)), exponent - shift + 5);
  return negative ? -result : result;
}

}  // namespace

ExactMoments::ExactMoments() : sums_(std::make_unique<std::array<Sums, kPowers>>()) {}

void ExactMoments::add(const arrow::DoubleArray& values) {
  constexpr uint64_t kFraction = (uint64_t{1} << 52) - 1;
  auto& sums = *sums_;
  const double* numbers = values.raw_values();
  bool has_nulls = values.null_count() > 0;
  double least = min_, most = max_;
  int64_t count = 0;
  for (int64_t i = 0; i < values.length(); ++i) {
    if (has_nulls && values.IsNull(i)) continue;
    double x = numbers[i];
    auto bits = std::bit_cast<uint64_t>(x);
    uint64_t power = (bits >> 52) & 0x7ff;
    if (power == 0x7ff) {
      if (std::isnan(x)) continue;
      infinite_ = true;
    } else {
      uint64_t mantissa = (bits & kFraction) | (power == 0 ? 0 : kFraction + 1);
      Sums& here = sums[power];
      auto number = static_cast<int64_t>(mantissa);
      here.sum += (bits >> 63) ? -number : number;
      unsigned __int128 square = static_cast<unsigned __int128>(mantissa) * mantissa;
      here.squares += square;
      here.squares_carry += here.squares < square;
    }
    least = x < least ? x : least;
    most = x > most ? x : most;
    ++count;
  }
  min_ = least;
  max_ = most;
  count_ += count;
}

void ExactMoments::merge(const ExactMoments& more) {
  for (size_t i = 0; i < kPowers; ++i) {
    Sums& all = (*sums_)[i];
    const Sums& other = (*more.sums_)[i];
    all.sum += other.sum;
    all.squares += other.squares;
    all.squares_carry += other.squares_carry + (all.squares < other.squares);
  }
  count_ += more.count_;
  infinite_ = infinite_ || more.infinite_;
  min_ = std::min(min_, more.min_);
  max_ = std::max(max_, more.max_);
}

namespace {

// The power of two of a mantissa, from that of the smallest number on. Subnormal numbers have
// exponent 0, and the power of exponent 1.
int power_of(size_t exponent) { return exponent == 0 ? 0 : static_cast<int>(exponent) - 1; }

constexpr int kLeastPower = -1074;

template <class Table>
cpp_int total(const Table& sums) {
  cpp_int all = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].sum == 0) continue;
    bool negative = sums[i].sum < 0;
    auto size = static_cast<unsigned __int128>(negative ? -sums[i].sum : sums[i].sum);
    cpp_int part = whole(size) << power_of(i);
    if (negative) {
      all -= part;
    } else {
      all += part;
    }
  }
  return all;
}

template <class Table>
cpp_int total_of_squares(const Table& sums) {
  cpp_int all = 0;
  for (size_t i = 0; i < sums.size(); ++i) {
    if (sums[i].squares == 0 && sums[i].squares_carry == 0) continue;
    cpp_int part = sums[i].squares_carry;
    part <<= 128;
    all += (part + whole(sums[i].squares)) << (2 * power_of(i));
  }
  return all;
}

}  // namespace

double ExactMoments::mean() const { return rounded(total(*sums_), count_, kLeastPower); }

double ExactMoments::std() const {
  cpp_int sum = total(*sums_);
  // count^2 times the variance.
  cpp_int spread = total_of_squares(*sums_) * count_ - sum * sum;
  if (spread == 0) return 0;
  int bits = static_cast<int>(msb(spread));
  int shift = bits < 256 ? 128 : 0;  // so that the root has enough digits
  cpp_int root = sqrt(cpp_int(spread << (2 * shift)));
  return rounded(root, count_, kLeastPower - shift);
}

}  // namespace manta::preprocess
