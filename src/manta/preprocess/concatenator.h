#pragma once

#include <atomic>
#include <cstdint>
#include <string>
#include <vector>

#include "manta/preprocess/columns.h"
#include "manta/preprocess/preprocessor.h"

namespace manta {

struct ConcatenatorOptions {
  std::string output_column_name = "concat_out";
  /// The type of the result: "float32", "float64", "int32" or "int64". Empty: float32 if all
  /// columns are float32, int64 if all are integers or booleans, float64 otherwise.
  std::string dtype = "";
  /// Columns may be lists of numbers, all of one length, for example OneHotEncoder's. Their
  /// elements are put side by side. False: such a column is an error.
  bool flatten = false;
};

namespace internal {

/// The length of the lists in some columns. Known from the first row on; not part of the state.
class ListLengths {
 public:
  explicit ListLengths(size_t columns) : lengths_(columns) {
    for (auto& length : lengths_) length = kUnknown;
  }
  ListLengths(const ListLengths& from) : ListLengths(from.lengths_.size()) {}
  ListLengths& operator=(const ListLengths& from);
  /// The length of a column's lists; `length` if there were none before.
  int64_t known(size_t column, int64_t length) const;

 private:
  static constexpr int64_t kUnknown = -1;
  mutable std::vector<std::atomic<int64_t>> lengths_;
};

}  // namespace internal

/// Puts columns of numbers into one column of vectors (fixed_size_list), in the order given, and
/// drops them: what a model takes as its input. If a column is a list type without a fixed size, so
/// is the result, because its type must not depend on the rows. All lists of a column must still
/// have one length, in all batches that one object gets (a copy begins anew, and every data set has
/// its own): another length is an error that names the row. Nulls become NaN in a result of floats.
/// In a result of integers, nulls, fractions and numbers out of range are errors. A column that is
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
  internal::ListLengths lengths_;
};

}  // namespace manta
