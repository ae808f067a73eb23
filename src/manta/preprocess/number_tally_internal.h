#pragma once

#include <arrow/api.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta::preprocess {

/// The least and the greatest value; null and NaN do not count.
class Extremes {
 public:
  void add(const arrow::DoubleArray& values) {
    const double* numbers = values.raw_values();
    bool has_nulls = values.null_count() > 0;
    for (int64_t i = 0; i < values.length(); ++i) {
      if (has_nulls && values.IsNull(i)) continue;
      double x = numbers[i];
      min_ = x < min_ ? x : min_;
      max_ = x > max_ ? x : max_;
      count_ += !std::isnan(x);
    }
  }
  void merge(const Extremes& more) {
    min_ = std::min(min_, more.min_);
    max_ = std::max(max_, more.max_);
    count_ += more.count_;
  }
  int64_t count() const { return count_; }
  double min() const { return min_ + 0.0; }  ///< 0, not -0, whichever came first.
  double max() const { return max_ + 0.0; }

 private:
  int64_t count_ = 0;
  double min_ = std::numeric_limits<double>::infinity();
  double max_ = -std::numeric_limits<double>::infinity();
};

/// A `Part`, such as Extremes, for each column of numbers.
template <class Part>
class NumberTally final : public Tally {
 public:
  /// Refers to the columns.
  explicit NumberTally(const internal::Columns& columns)
      : columns_(columns), parts_(columns.size()) {}
  NumberTally(const internal::Columns& columns, std::vector<Part> parts)
      : columns_(columns), parts_(std::move(parts)) {}

  void add(const data::BatchPtr& batch) override {
    auto arrays = columns_.of(*batch);
    for (size_t i = 0; i < arrays.size(); ++i) {
      parts_[i].add(*numbers_of(arrays[i], columns_.inputs()[i], columns_.who()));
    }
  }
  void merge(Tally& more) override {
    auto& other = static_cast<NumberTally&>(more);
    for (size_t i = 0; i < parts_.size(); ++i) parts_[i].merge(other.parts_[i]);
  }
  /// By column, each with at least one value. Throws Error(kInvalidArgument) otherwise.
  std::vector<Part>& parts() {
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].count() == 0) throw_nothing_to_learn(columns_.inputs()[i], columns_.who());
    }
    return parts_;
  }

 private:
  const internal::Columns& columns_;
  std::vector<Part> parts_;
};

}  // namespace manta::preprocess
