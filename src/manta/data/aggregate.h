#pragma once

#include <string>

/// What is computed of the rows of a group, or of all rows: `agg::mean("fare")`.
namespace manta {

class Aggregate {
 public:
  enum class Kind { kCount, kSum, kMin, kMax, kMean, kStd, kQuantile, kUnique };

  Aggregate(Kind kind, std::string column, double parameter = 0);

  /// The same under another name. By itself it is called "mean(fare)", as in Ray.
  Aggregate as(std::string name) const;

  Kind kind() const { return kind_; }
  const std::string& column() const { return column_; }
  const std::string& name() const { return name_; }
  double parameter() const { return parameter_; }  ///< ddof of std, q of quantile.

 private:
  Kind kind_;
  std::string column_;
  double parameter_;
  std::string name_;
};

/// Nulls do not count. If there are no others, the result is null, except for counts (0) and
/// `unique` (an empty list).
namespace agg {

/// The number of rows, or of values of a column that are not null: int64.
Aggregate count(const std::string& column = "");
/// Of integers int64 (of unsigned ones uint64), of booleans how many are true (int64), of floats
/// float64, of decimals decimal128(38, scale), of durations a duration. A sum that does not fit is
/// an error. NaN gives NaN.
Aggregate sum(const std::string& column);
/// Of any type whose values can be compared; the result is of that type. NaN only if there is
/// nothing else; -0.0 is 0.0.
Aggregate min(const std::string& column);
Aggregate max(const std::string& column);
/// float64, of integers from their exact sum.
Aggregate mean(const std::string& column);
/// The standard deviation, float64: of a sample (`ddof` 1, null for a single value) or of all
/// (`ddof` 0). NaN or infinities give NaN.
Aggregate std(const std::string& column, int ddof = 1);
/// float64, between two values linear; `q` from 0 to 1. NaN gives NaN. The values of a group must
/// fit into memory.
Aggregate quantile(const std::string& column, double q = 0.5);
/// The different values in rising order, as a list. Must fit into memory, too.
Aggregate unique(const std::string& column);

}  // namespace agg
}  // namespace manta
