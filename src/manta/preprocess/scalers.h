#pragma once

#include <string>
#include <vector>

#include "manta/preprocess/preprocessor.h"

namespace manta {
namespace internal {

/// What the scalers share: columns of numbers, each of which becomes (x - offset) / scale as
/// float64. Integers and decimals are rounded to float64, true is 1. Null stays null, NaN stays
/// NaN.
class ColumnScaler : public Preprocessor {
 public:
  bool is_fitted() const final { return !scales_.empty(); }
  data::BatchPtr transform_batch(const data::BatchPtr& batch) const final;
  std::vector<std::string> input_columns() const final { return columns_; }
  std::vector<std::string> output_columns() const final { return columns_; }

 protected:
  struct Scale {
    double offset = 0;
    double divisor = 1;
  };
  /// Throws Error(kInvalidArgument), for a scaler of that name, if there is no column, or one is
  /// named twice.
  ColumnScaler(const std::string& name, std::vector<std::string> columns);
  void set_scales(std::vector<Scale> scales) { scales_ = std::move(scales); }

  std::vector<std::string> columns_;

 private:
  std::vector<Scale> scales_;  // by column; none before fit
};

}  // namespace internal

/// Brings each column to mean 0 and standard deviation 1: (x - mean) / std, as float64. The
/// standard deviation is that of all rows (ddof = 0), as in Ray and scikit-learn.
///
/// Nulls and NaN are left out when it learns, and stay what they are when it transforms. A column
/// of one value only, whose std is 0, becomes 0. `fit` throws Error(kNotFound) for a column that is
/// not there, Error(kInvalidArgument) for one that has no numbers, nothing but nulls, or values so
/// far apart or so close together that a float64 cannot hold mean and std. The result has the same
/// bits for any number of threads.
class StandardScaler final : public internal::ColumnScaler {
 public:
  explicit StandardScaler(std::vector<std::string> columns);

  void fit(const Dataset& dataset) override;
  std::string name() const override { return "StandardScaler"; }
  /// What it has learned: {"mean(a)": 2.5, "std(a)": 0.5}. Throws Error(kInvalidArgument) before
  /// fit.
  Json stats() const;
  Json state() const override;
  static StandardScaler from_state(const Json& state);

 private:
  struct Learned {
    double mean = 0;
    double std = 0;
  };
  void set(std::vector<Learned> learned);

  std::vector<Learned> learned_;  // by column
};

/// Brings each column to the range from 0 to 1: (x - min) / (max - min), as float64. What lies
/// outside of the range that it learned from is not cut off: it becomes less than 0 or more than 1.
///
/// A column of one value only becomes x - min: 0 for that value. Nulls, NaN and errors are as for
/// StandardScaler.
class MinMaxScaler final : public internal::ColumnScaler {
 public:
  explicit MinMaxScaler(std::vector<std::string> columns);

  void fit(const Dataset& dataset) override;
  std::string name() const override { return "MinMaxScaler"; }
  /// What it has learned: {"min(a)": -1, "max(a)": 4}. Throws Error(kInvalidArgument) before fit.
  Json stats() const;
  Json state() const override;
  static MinMaxScaler from_state(const Json& state);

 private:
  struct Learned {
    double min = 0;
    double max = 0;
  };
  void set(std::vector<Learned> learned);

  std::vector<Learned> learned_;  // by column
};

}  // namespace manta
