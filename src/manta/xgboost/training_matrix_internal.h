#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/data/shard.h"
#include "manta/xgboost/float_rows_internal.h"
#include "manta/xgboost/library_internal.h"

namespace arrow {
class Schema;
}

namespace manta::xgboost {

/// The names of the features and of the label.
struct TrainingColumns {
  std::vector<FeatureColumn> features;  ///< In the order of the model.
  std::string label;

  /// All columns of the data set "train" but the label are features. Throws Error(kNotFound) if the
  /// label is not there, Error(kInvalidArgument) if nothing else is, or if a column has no numbers.
  static TrainingColumns of(const arrow::Schema& train, const std::string& label);
  /// Throws Error(kInvalidArgument), which names the columns, unless another data set has the same
  /// columns, in any order, and vectors of the same lengths.
  void require_same(const arrow::Schema& schema, const std::string& dataset) const;
};

struct MatrixOptions {
  int threads = 1;
  /// Keep the bin of each value instead of the value. Enough for the tree method `hist`; others
  /// need the values.
  bool binned = true;
  std::string max_bin = {};  ///< The parameter; empty: the library's default.
};

/// This worker's part of a data set, in the library's form. If binned, a value takes one byte, or
/// two, instead of eight. All workers must make it at the same time: the library compares their
/// values to choose the bins.
///
/// The rows are read and decoded once. Until the matrix is made, the worker has them as float32. At
/// its peak this takes 4 bytes for each value, and the bytes of the result.
class TrainingMatrix {
 public:
  /// The first matrix decides which columns there are: its `columns` is empty, and gets filled. The
  /// other matrices get its bins: their `reference` is the first.
  TrainingMatrix(const DataShard& shard, const std::string& label, TrainingColumns& columns,
                 const TrainingMatrix* reference, const MatrixOptions& options);

  void* handle() const { return handle_.get(); }
  const std::string& name() const { return name_; }

 private:
  std::string name_;
  MatrixHandle handle_;
};

}  // namespace manta::xgboost
