#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"

namespace manta {

struct SimpleImputerOptions {
  /// "mean": the column becomes float64. "most_frequent": for any values that can be categories;
  /// the smallest of equally frequent values. "constant": `fill_value`, with nothing to learn.
  std::string strategy = "mean";
  /// For "constant" only: a text, a number or a boolean, which the column's type must be able to
  /// hold exactly (float32 columns: nearly). For times and decimals give a text: "2024-05-01",
  /// "0.25".
  Json fill_value = nullptr;
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Fills nulls and NaN. `fit` throws Error(kInvalidArgument) for a column that has nothing else. A
/// missing column is an error, too (Ray makes one from the fill value, so a wrong name goes
/// unnoticed).
class SimpleImputer final : public LearningPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) for an unknown strategy, and for a fill value without, or
  /// missing with, "constant".
  explicit SimpleImputer(std::vector<std::string> columns,
                         const SimpleImputerOptions& options = {});

  bool is_fitted() const override { return !fills_.empty(); }
  bool has_to_learn() const override { return strategy_ != "constant"; }
  void check_columns(const arrow::Schema& schema) const override;
  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "SimpleImputer"; }
  /// The values that it fills in: {"mean(a)": 2.5}, {"most_frequent(a)": "x"}, {"constant(a)": 0}.
  /// Throws Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;
  static SimpleImputer from_state(const Json& state);

 private:
  internal::Columns columns_;
  std::string strategy_;
  Json fill_value_;
  std::vector<Json> fills_;  // by column
};

}  // namespace manta
