#pragma once

#include <arrow/type_fwd.h>

#include <array>
#include <cstdint>
#include <limits>
#include <memory>

namespace manta::preprocess {

/// Count, extremes, mean and standard deviation of float64 values, computed without rounding until
/// the very end. So the result has the same bits for any order of the values and any cut into
/// parts, and all its digits are right, however far from 0 the values are. Null and NaN do not
/// count.
///
/// A value is its mantissa, a whole number below 2^53, times a power of two. For each power there
/// are a sum of mantissas and a sum of their squares, wide enough for any number of rows. It takes
/// 80 KB, and 2 to 4 ns for each value.
class ExactMoments {
 public:
  ExactMoments();

  void add(const arrow::DoubleArray& values);
  void merge(const ExactMoments& more);

  int64_t count() const { return count_; }
  double min() const { return min_ + 0.0; }  ///< 0, not -0, whichever came first.
  double max() const { return max_ + 0.0; }
  /// Whether there were infinite values: `min` and `max` count them, but no sum does.
  bool has_infinite() const { return infinite_; }
  /// The nearest float64 to the mean. Only if there are values, and no infinite one.
  double mean() const;
  /// The standard deviation of all values (ddof = 0), to within little more than half a unit in the
  /// last place.
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
