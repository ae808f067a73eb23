#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/base/error.h"
#include "manta/train/config.h"

namespace arrow {
class Table;
}

namespace manta {

/// Which result is the best. A field that is not set is TuneConfig's.
struct BestResultOptions {
  std::string metric = {};
  std::string mode = {};  ///< "min" or "max"
  /// Which reports of a trial count: its "last" one, the best of "all", the average of all ("avg"),
  /// or the average of the last ones ("last-5-avg", "last-10-avg").
  std::string scope = "last";
  /// Leaves out trials whose value is NaN. Otherwise such a value is worse than any other.
  bool filter_nan = true;
};

/// The outcome of an experiment: the result of each trial, in the order of suggestions.
class ResultGrid {
 public:
  ResultGrid() = default;
  ResultGrid(std::vector<Result> results, std::string experiment_path, std::string metric,
             std::string mode)
      : experiment_path(std::move(experiment_path)),
        results_(std::move(results)),
        metric_(std::move(metric)),
        mode_(std::move(mode)) {}

  size_t size() const { return results_.size(); }
  const Result& operator[](size_t i) const { return results_[i]; }
  auto begin() const { return results_.begin(); }
  auto end() const { return results_.end(); }

  size_t num_errors() const;          ///< Trials that failed.
  size_t num_terminated() const;      ///< Trials that ended without an error.
  std::vector<Error> errors() const;  ///< Of the trials that failed.

  /// A failed trial counts with its reports up to the failure. Throws Error(kInvalidArgument) if no
  /// metric and mode are known, Error(kNotFound) listing what was reported if no trial reported the
  /// metric.
  Result get_best_result(const BestResultOptions& options = {}) const;

  /// One row a trial: trial, outcome, error, training_iteration, its last metrics, and its
  /// configuration in columns that begin with "config/". Parts of nested values are named "a/b";
  /// arrays are texts, and so are columns whose values are of several types.
  std::shared_ptr<arrow::Table> get_dataframe() const;

  std::string experiment_path;  ///< The experiment's folder, or its address, for Tuner::restore.

 private:
  std::vector<Result> results_;
  std::string metric_, mode_;
};

}  // namespace manta
