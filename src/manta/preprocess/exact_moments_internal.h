#pragma once

#include <arrow/type_fwd.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>

namespace manta::preprocess {

/// Count, extremes, mean and standard deviation of float64 values, computed without rounding until
/// the very end: so the result has the same bits for any order of the values and any cut into
/// parts, and all its digits, however far from 0 the values are. Null and NaN do not count.
///
/// A value is its mantissa, a whole number below 2^53, times a power of two. For each power there
/// is a sum of mantissas and one of their squares, wide enough for any number of rows. 80 KB; 2 to
/// 4 ns a value.
class ExactMoments {
 public:
  ExactMoments();

  void add(const arrow::DoubleArray& values);
  void merge(const ExactMoments& more);

  int64_t count() const { return count_; }
  double min() const { return min_ + 0.0; }  ///< 0, not -0, whichever came first.
  double max() const { return max_ + 0.0; }
  /// The values that `min` and `max` tell: infinite ones are in no sum.
  bool has_infinite() const { return infinite_; }
  /// The nearest float64 to the mean. Only if there are values, and no infinite one.
  double mean() const;
  /// That of all values (ddof = 0), within half a unit in the last place and a little.
  double std() const;

 private:
  static constexpr size_t kPowers = 2047;
  struct Sums {
    __int128 sum = 0;
    unsigned __int128 squares = 0;
    uint64_t squares_carry = 0;
  };
  int64_t count_ = 0;
  bool infinite_ = false;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
  std::unique_ptr<std::array<Sums, kPowers>> sums_;
};

}  // namespace manta::preprocess
