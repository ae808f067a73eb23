#pragma once

#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/preprocessor.h"

namespace manta {

struct NormalizerOptions {
  std::string norm = "l2";  ///< "l1": sum of absolute values; "l2": Euclidean; "max": the greatest.
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Divides the columns of a row by the norm of all of them together, so that each row has norm 1.
/// float64. A row of zeros stays zeros, as in scikit-learn (Ray makes it NaN). Null and NaN stay,
/// and do not count in the norm. Nothing to learn.
class Normalizer final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) for an unknown norm.
  explicit Normalizer(std::vector<std::string> columns, const NormalizerOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "Normalizer"; }
  Json state() const override;
  static Normalizer from_state(const Json& state);

 private:
  internal::Columns columns_;
  std::string norm_;
};

struct PowerTransformerOptions {
  std::string method = "yeo-johnson";  ///< Or "box-cox", for values above 0 only.
  /// One for each column. None: the columns are replaced.
  std::vector<std::string> output_columns = {};
};

/// Makes columns more like a normal distribution by a given power, as in Ray (scikit-learn's class
/// finds the power itself). float64. "box-cox" of a value that is not above 0 is an error, as in
/// scikit-learn (Ray makes it NaN). Null and NaN stay. Nothing to learn.
class PowerTransformer final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) for an unknown method, or a power that is not finite.
  PowerTransformer(std::vector<std::string> columns, double power,
                   const PowerTransformerOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::string name() const override { return "PowerTransformer"; }
  Json state() const override;
  static PowerTransformer from_state(const Json& state);

 private:
  internal::Columns columns_;
  double power_;
  std::string method_;
};

}  // namespace manta
