#pragma once

#include <arrow/type_fwd.h>

#include <cstdint>
#include <limits>
#include <memory>
#include <string>
#include <vector>

#include "manta/data/dataset.h"

namespace manta::preprocess {

/// A column's values as float64, with its nulls: integers and decimals rounded, true as 1. Costs
/// nothing for a column of float64. Throws Error(kInvalidArgument), which begins with `who` and
/// names the column, if its type has no numbers.
std::shared_ptr<arrow::DoubleArray> numbers_of(const std::shared_ptr<arrow::Array>& column,
                                               const std::string& name, const std::string& who);

/// Which rows of a column are not null, from bit 0; null if all are not.
std::shared_ptr<arrow::Buffer> validity_of(const arrow::Array& column);

/// What some values of a column come to; null and NaN do not count.
struct Summary {
  int64_t count = 0;
  double mean = 0;
  /// What is missing in `mean`, which is rounded: of values far from 0 that differ little, rounding
  /// it can cost more than they differ by.
  double mean_rest = 0;
  double squares = 0;  ///< The sum of (x - mean - mean_rest)^2.
  double min = std::numeric_limits<double>::infinity();
  double max = -std::numeric_limits<double>::infinity();

  bool is_constant() const { return min == max; }
};
Summary summary_of(const arrow::DoubleArray& values);
/// Adds what `more` values come to. Loses no more than rounding (Chan, Golub and LeVeque 1979).
void merge(Summary& all, const Summary& more);

/// The columns of a data set, each with at least one value. Throws Error(kNotFound) or
/// Error(kInvalidArgument), which begin with `who` and name the column, if one is not there, has no
/// numbers, or no value.
std::vector<Summary> summarise(const Dataset& dataset, const std::vector<std::string>& columns,
                               const std::string& who);

/// The places of columns in a batch. Throws Error(kNotFound) that names all that are missing.
std::vector<int> places_of(const std::vector<std::string>& columns, const arrow::Schema& schema,
                           const std::string& who);

}  // namespace manta::preprocess
