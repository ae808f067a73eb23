#pragma once

#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/learning.h"

namespace manta {

/// What all scalers may be given.
struct ScalerOptions {
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

namespace internal {

/// What the scalers share: columns of numbers, each of which becomes (x - offset) / scale as
/// float64. Integers and decimals are rounded to float64, true is 1. Null stays null, NaN stays
/// NaN. The inverse is x * scale + offset.
class ColumnScaler : public LearningPreprocessor, public Invertible {
 public:
  bool is_fitted() const final { return !scales_.empty(); }
  void check_columns(const arrow::Schema& schema) const final;
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const final;
  data::BatchPtr inverse_transform_batch(const data::BatchPtr& batch) const final;
  std::vector<std::string> input_columns() const final { return columns_.inputs(); }
  std::vector<std::string> output_columns() const final { return columns_.outputs(); }
  std::string name() const final { return columns_.who(); }
  /// What it has learned, by the names that Ray gives: {"mean(a)": 2.5, "std(a)": 0.5}. Throws
  /// Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;

 protected:
  struct Scale {
    double offset = 0;
    double divisor = 1;
  };
  /// What is learned, by name, with a number for each column: ("min", [1, 2]).
  struct Learned {
    std::string name;
    std::vector<double> by_column;
  };
  /// Throws Error(kInvalidArgument) if there is no column, or one is named twice.
  explicit ColumnScaler(Columns columns)
      : columns_(std::move(columns)),
        before_(columns_.who(), columns_.outputs(), columns_.inputs()) {}

  void set(std::vector<Learned> learned, std::vector<Scale> scales);
  /// The numbers of that name, one for each column; empty before fit.
  std::vector<double> read(const internal::JsonFields& fields, const std::string& name) const;
  /// Throws Error(kInvalidArgument) naming a column whose values are infinite, or too far apart to
  /// be subtracted.
  void require_range(size_t column, double min, double max) const;

  Columns columns_;

 private:
  data::BatchPtr mapped(const Columns& columns, const data::BatchPtr& batch, bool inverse) const;

  Columns before_;  // from outputs to inputs
  std::vector<Learned> learned_;
  std::vector<Scale> scales_;  // by column; none before fit
};

}  // namespace internal

/// Brings each column to mean 0 and standard deviation 1: (x - mean) / std, as float64. The
/// standard deviation is that of all rows (ddof = 0), as in Ray and scikit-learn.
///
/// Nulls and NaN are left out when it learns, and stay what they are when it transforms. A column
/// of one value only, whose std is 0, becomes 0. `fit` throws Error(kNotFound) for a column that is
/// not there, Error(kInvalidArgument) for one that has no numbers, nothing but nulls, infinite
/// values, or values so far apart that a float64 cannot hold their difference. Mean and std are
/// computed from exact sums: they have all digits, and the same bits however the rows are cut into
/// batches and for any number of threads.
class StandardScaler final : public internal::ColumnScaler {
 public:
  explicit StandardScaler(std::vector<std::string> columns, const ScalerOptions& options = {});

  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  static StandardScaler from_state(const Json& state);

 private:
  explicit StandardScaler(internal::Columns columns) : ColumnScaler(std::move(columns)) {}
  void set_learned(std::vector<double> means, std::vector<double> stds);
};

using Scaler = StandardScaler;

/// Brings each column to the range from 0 to 1: (x - min) / (max - min), as float64. Values outside
/// of the learned range are not cut off: they become less than 0 or more than 1.
///
/// A column of one value only becomes x - min: 0 for that value. Nulls, NaN and errors are as for
/// StandardScaler.
class MinMaxScaler final : public internal::ColumnScaler {
 public:
  explicit MinMaxScaler(std::vector<std::string> columns, const ScalerOptions& options = {});

  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  static MinMaxScaler from_state(const Json& state);

 private:
  explicit MinMaxScaler(internal::Columns columns) : ColumnScaler(std::move(columns)) {}
  void set_learned(std::vector<double> mins, std::vector<double> maxs);
};

/// Divides each column by its greatest absolute value, so that values lie between -1 and 1, and 0
/// stays 0. A column of zeros stays 0. Nulls, NaN and errors are as for StandardScaler.
class MaxAbsScaler final : public internal::ColumnScaler {
 public:
  explicit MaxAbsScaler(std::vector<std::string> columns, const ScalerOptions& options = {});

  std::unique_ptr<Tally> start_tally() const override;
  bool finish_tally(Tally& all) override;
  static MaxAbsScaler from_state(const Json& state);

 private:
  explicit MaxAbsScaler(internal::Columns columns) : ColumnScaler(std::move(columns)) {}
  void set_learned(std::vector<double> abs_maxs);
};

}  // namespace manta
