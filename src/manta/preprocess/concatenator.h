#pragma once

#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/preprocessor.h"

namespace manta {

struct ConcatenatorOptions {
  std::string output_column_name = "concat_out";
  /// Of the result: "float32", "float64", "int32" or "int64". Empty: float32 if all columns are,
  /// int64 if all are integers or booleans, float64 otherwise.
  std::string dtype = "";
  /// Columns may be vectors (fixed_size_list, as OneHotEncoder makes them), whose elements are put
  /// in a row. Otherwise such a column is an error.
  bool flatten = false;
};

/// Puts columns of numbers into one column of vectors (fixed_size_list), in the order given, and
/// drops them: what a model takes as its input. Nulls become NaN in a result of floats; where the
/// result is of integers, nulls, fractions and numbers out of range are errors. A column that is
/// not there is always an error. Nothing to learn.
class Concatenator final : public StatelessPreprocessor {
 public:
  /// Throws Error(kInvalidArgument) for an unknown dtype.
  explicit Concatenator(std::vector<std::string> columns, const ConcatenatorOptions& options = {});

  data::BatchPtr transform_batch(const data::BatchPtr& batch) const override;
  std::vector<std::string> input_columns() const override { return columns_.inputs(); }
  std::vector<std::string> output_columns() const override { return columns_.outputs(); }
  std::vector<std::string> removed_columns() const override;
  std::string name() const override { return "Concatenator"; }
  Json state() const override;
  static Concatenator from_state(const Json& state);

 private:
  internal::Columns columns_;
  std::string dtype_;
  bool flatten_;
};

}  // namespace manta
