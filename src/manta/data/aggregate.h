#pragma once

#include <memory>
#include <string>
#include <vector>

/// What is computed from the rows of a group, or from all rows: `agg::mean("fare")`.
namespace manta {

namespace data {
class PlanFunction;
}

class Aggregate {
 public:
  enum class Kind { kCount, kSum, kMin, kMax, kMean, kStd, kQuantile, kUnique, kCustom };

  Aggregate(Kind kind, std::string column, double parameter = 0);
  /// An aggregate of the user's own: see `agg::custom`. Throws Error(kInvalidArgument) if there are
  /// no columns, or if two are the same.
  Aggregate(std::shared_ptr<const data::PlanFunction> function, std::vector<std::string> columns,
            std::string name);

  /// The same under another name. The default name is like "mean(fare)", as in Ray.
  Aggregate as(std::string name) const;

  Kind kind() const { return kind_; }
  const std::string& column() const { return column_; }  ///< "" of a custom one.
  /// All columns that it looks at.
  std::vector<std::string> columns() const;
  /// Of a custom one, else null.
  const std::shared_ptr<const data::PlanFunction>& function() const { return function_; }
  const std::string& name() const { return name_; }
  double parameter() const { return parameter_; }  ///< ddof of std, q of quantile.

 private:
  Kind kind_;
  std::string column_;
  double parameter_ = 0;
  std::string name_;
  std::shared_ptr<const data::PlanFunction> function_;
  std::vector<std::string> custom_columns_;
};

/// Nulls do not count. If there are only nulls, the result is null, except for counts (0) and
/// `unique` (an empty list).
namespace agg {

/// The number of rows, or of values of a column that are not null: int64.
Aggregate count(const std::string& column = "");
/// Of integers int64 (of unsigned ones uint64), of booleans how many are true (int64), of floats
/// float64, of decimals decimal128(38, scale), of durations a duration. A sum that does not fit is
/// an error. NaN gives NaN.
Aggregate sum(const std::string& column);
/// Of any type whose values can be compared; the result is of that type. The result is NaN only if
/// there is nothing else; -0.0 is 0.0.
Aggregate min(const std::string& column);
Aggregate max(const std::string& column);
/// float64, of integers from their exact sum.
Aggregate mean(const std::string& column);
/// The standard deviation, float64: of a sample (`ddof` 1, null for a single value) or of all
/// (`ddof` 0). NaN or infinities give NaN.
Aggregate std(const std::string& column, int ddof = 1);
/// float64, linear between two values; `q` from 0 to 1. NaN gives NaN. Between a number and an
/// infinity the result is that infinity, between the two infinities NaN. The values of a group must
/// fit into memory.
Aggregate quantile(const std::string& column, double q = 0.5);
/// The different values in ascending order, as a list. They must fit into memory, too.
Aggregate unique(const std::string& column);

}  // namespace agg
}  // namespace manta
