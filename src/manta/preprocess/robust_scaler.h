#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "manta/preprocess/scalers.h"

namespace manta {

struct RobustScalerOptions {
  /// Both between 0 and 1, the first below the second.
  std::pair<double, double> quantile_range = {0.25, 0.75};
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Subtracts each column's median, and divides by the distance between two of its quantiles:
/// outliers change neither. The result is float64.
///
/// The quantiles are exact, interpolated as in numpy and scikit-learn (Ray estimates them from a
/// sketch). `fit` reads the data once if it has at most 33 million values (256 MiB) in all columns
/// together; otherwise four times, in memory of a few MB for each column. A column whose quantiles
/// are equal becomes x - median. Nulls, NaN and errors are as for StandardScaler; infinite values
/// are allowed as long as no quantile is infinite.
class RobustScaler final : public internal::ColumnScaler {
 public:
  explicit RobustScaler(std::vector<std::string> columns, const RobustScalerOptions& options = {});

  void start_learning() override;
  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  Json state() const override;
  static RobustScaler from_state(const Json& state);

 private:
  struct Search;
  void set_learned(std::vector<double> low, std::vector<double> median, std::vector<double> high);

  std::pair<double, double> range_;
  std::shared_ptr<Search> search_;  // while it learns
};

}  // namespace manta
