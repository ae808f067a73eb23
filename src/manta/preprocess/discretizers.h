#pragma once

#include <concepts>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"

namespace manta {

struct DiscretizerOptions {
  bool right = true;  ///< A bin includes its right edge, not its left one; false: the reverse.
  bool include_lowest = false;  ///< The first bin includes its left edge, too.
  /// "raise": equal edges are an error; "drop": only one of them stays.
  std::string duplicates = "raise";
  /// Names of bins, for some columns: {{"age", {"young", "old"}}}, one for each bin, all different.
  /// The column becomes a dictionary of these names instead of int64.
  std::map<std::string, std::vector<std::string>> dtypes = {};
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

namespace internal {

/// What discretizers share: edges of bins, ascending; a number becomes the place of its bin, from 0
/// on, as int64, as pandas.cut does. Null, NaN and numbers outside of all bins become null.
class Bins {
 public:
  Bins(Columns columns, DiscretizerOptions options);
  /// Throws Error(kInvalidArgument) if a column's edges descend, are too few, NaN, or equal (and
  /// duplicates is "raise"), or if the number of names is not that of the bins.
  void set_edges(std::vector<std::vector<double>> by_column);
  bool has_edges() const { return !edges_.empty(); }
  const std::vector<std::vector<double>>& edges() const { return edges_; }
  const Columns& columns() const { return columns_; }
  const DiscretizerOptions& options() const { return options_; }
  data::BatchPtr transform(const data::BatchPtr& batch) const;

  void write(Json& state) const;
  static Bins read(const std::string& who, const internal::JsonFields& fields);
  static std::vector<double> read_edges(const internal::JsonFields& fields, const Json& edges,
                                        const std::string& key);

 private:
  std::shared_ptr<arrow::Array> binned(size_t column,
                                       const std::shared_ptr<arrow::Array>& values) const;

  Columns columns_;
  DiscretizerOptions options_;
  std::vector<std::vector<double>> edges_;
};

}  // namespace internal

/// Cuts the range of each column, from its least to its greatest value, into bins of equal width.
/// The outermost edge is moved out by 0.1 % of the range, so that the least value (with `right`)
/// has a bin. A column of one value has bins around it. All this is as pandas.cut and Ray do. `fit`
/// learns as MinMaxScaler does.
class UniformKBinsDiscretizer final : public LearningPreprocessor {
 public:
  /// This many bins for each column.
  UniformKBinsDiscretizer(std::vector<std::string> columns, int64_t bins,
                          const DiscretizerOptions& options = {});
  /// Numbers of bins by column; all columns must be there.
  UniformKBinsDiscretizer(std::vector<std::string> columns, std::map<std::string, int64_t> bins,
                          const DiscretizerOptions& options = {});

  bool is_fitted() const override { return bins_.has_edges(); }
  void check_columns(const arrow::Schema& schema) const override;
  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return bins_.columns().inputs(); }
  std::vector<std::string> output_columns() const override { return bins_.columns().outputs(); }
  std::string name() const override { return "UniformKBinsDiscretizer"; }
  /// The edges by column. Throws Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;
  static UniformKBinsDiscretizer from_state(const Json& state);

 private:
  UniformKBinsDiscretizer(internal::Bins bins, std::map<std::string, int64_t> numbers);

  internal::Bins bins_;
  std::map<std::string, int64_t> numbers_;  // of bins, by column
};

/// Cuts columns at given edges, which may be infinite. Nothing to learn.
class CustomKBinsDiscretizer final : public StatelessPreprocessor {
 public:
  /// The same edges for each column.
  CustomKBinsDiscretizer(std::vector<std::string> columns, const std::vector<double>& bins,
                         const DiscretizerOptions& options = {});
  /// The edges by column, as a std::map; all columns must be there. (A template, because {0, 10}
  /// could be a map, too.)
  template <std::same_as<std::map<std::string, std::vector<double>>> ByColumn>
  CustomKBinsDiscretizer(std::vector<std::string> columns, const ByColumn& bins,
                         const DiscretizerOptions& options = {})
      : CustomKBinsDiscretizer(no_bins(std::move(columns), options)) {
    set_edges(bins);
  }

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return bins_.columns().inputs(); }
  std::vector<std::string> output_columns() const override { return bins_.columns().outputs(); }
  std::string name() const override { return "CustomKBinsDiscretizer"; }
  Json state() const override;
  static CustomKBinsDiscretizer from_state(const Json& state);

 private:
  explicit CustomKBinsDiscretizer(internal::Bins bins) : bins_(std::move(bins)) {}
  static internal::Bins no_bins(std::vector<std::string> columns,
                                const DiscretizerOptions& options);
  void set_edges(const std::map<std::string, std::vector<double>>& bins);

  internal::Bins bins_;
};

}  // namespace manta
