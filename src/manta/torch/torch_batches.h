#pragma once

#include <torch/types.h>

#include <functional>
#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/data/dataset.h"
#include "manta/data/shard.h"

namespace arrow {
class RecordBatch;
}

namespace manta {

namespace data {
struct StepSlice;
}

/// Which types the tensors of a batch have: `torch::kFloat32` for all columns, or `{{"id",
/// torch::kInt64}, {"price", torch::kFloat32}}` for some. A column that is not named keeps its own
/// type:
/// - integers of 8 to 64 bits, bool, and floating point of 16 to 64 bits as they are;
/// - unsigned integers of 16 bits as int32, of 32 and 64 bits as int64, because torch computes
///   little with unsigned ones;
/// - timestamps, dates, times and durations as int64, in the unit of the column.
struct TorchDtypes {
  TorchDtypes() = default;
  TorchDtypes(torch::Dtype dtype) : all(dtype) {}  // NOLINT: for `.dtypes = torch::kFloat32`
  TorchDtypes(std::initializer_list<std::pair<const std::string, torch::Dtype>> columns)
      : columns(columns) {}
  /// For a map that a program makes.
  TorchDtypes(std::map<std::string, torch::Dtype> columns)  // NOLINT: as the one above
      : columns(std::move(columns)) {}

  std::optional<torch::Dtype> all = {};
  std::map<std::string, torch::Dtype> columns = {};
};

/// What happens to a number that the requested type cannot hold: 2.7 or 300 as uint8, NaN or a null
/// as an integer, 16777217 as float32, 2^63 as int64, 1e300 as float32.
enum class Inexact {
  kRefused,  ///< Error(kInvalidArgument) naming the column, the row and the value.
  /// The nearest number: rounded for float32; for an integer, the fraction is cut off (2.7 becomes
  /// 2), the value is limited to the range (300 becomes 255), and NaN and nulls become 0. For bool:
  /// whether it is not 0.
  kAllowed,
};

/// How lists of different lengths become one tensor: each row is filled up at its end.
struct TorchPadding {
  double value = 0;
  int64_t length = 0;  ///< Of every row; a longer one is an error. 0: that of the batch's longest.
};
/// By column: `{{"tokens", {}}, {"history", {.value = -1, .length = 50}}}`.
using TorchPaddings = std::map<std::string, TorchPadding>;

/// Lists of different lengths, one after the other: row i has values [offsets[i], offsets[i + 1]).
struct RaggedTensor {
  torch::Tensor values;   ///< [elements], or [elements, ...] for lists of vectors.
  torch::Tensor offsets;  ///< int64, of shape [rows + 1]; begins with 0.
};

struct TorchBatchOptions {
  int64_t batch_size = 256;       ///< Rows for each worker and step.
  int64_t global_batch_size = 0;  ///< Rows of a step for all workers together, instead.
  bool drop_last = false;         ///< Leave out a last step of fewer rows.
  /// The types of the tensors. By default each column keeps its type, and `columns` gives float32.
  /// A name that the data does not have is an error.
  TorchDtypes dtypes = {};
  /// Columns of lists that are filled up. Other lists must have equal length within each batch.
  TorchPaddings padding = {};
};

/// Some rows as tensors. Columns are converted when you ask for them. Numbers arrive unchanged, or
/// you get an error (see Inexact). Rounding between floating-point types, e.g. of a double to
/// float32, is not an error, because asking for float32 asks for it. A null becomes NaN; in an
/// integer or bool tensor it is an error.
///
/// The shape of a row is that of the column's type: fixed-size lists of fixed-size lists (images of
/// read_images, arrays of read_numpy, vectors of OneHotEncoder and Concatenator) have the sizes of
/// their type. Lists, and binary values as bytes, have the length that all rows of the batch share.
/// If the lengths differ, it is an error, unless `padding` names the column or you call `ragged`.
///
/// Its functions throw Error(kNotFound) naming columns similar to the unknown one, and
/// Error(kInvalidArgument) if a column does not have numbers, bools or times (decimals, text,
/// dictionaries: the error says what to use), or if a list is null.
class TorchBatch {
 public:
  TorchBatch() = default;
  /// Of rows in memory.
  explicit TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, TorchDtypes dtypes = {},
                      TorchPaddings padding = {});

  /// One column: a tensor of shape [rows], [rows, elements] for vectors and bytes, [rows, height,
  /// width, channels] for images; of its own type or of the one that `dtypes` gives.
  torch::Tensor operator[](const std::string& column) const;
  torch::Tensor column(const std::string& name, torch::Dtype dtype,
                       Inexact inexact = Inexact::kRefused) const;
  /// Several columns side by side: [rows, columns]. A vector (or image) counts as many columns as
  /// it has elements. The type is float32, unless `dtypes` gives one type for all of them.
  torch::Tensor columns(const std::vector<std::string>& names) const;
  torch::Tensor columns(const std::vector<std::string>& names, torch::Dtype dtype,
                        Inexact inexact = Inexact::kRefused) const;
  /// A column of lists, or of binary values, of any lengths; of its own type, or that of `dtypes`.
  RaggedTensor ragged(const std::string& name) const;
  RaggedTensor ragged(const std::string& name, torch::Dtype dtype,
                      Inexact inexact = Inexact::kRefused) const;
  std::vector<std::string> names() const;  ///< Of the columns.
  int64_t rows() const { return rows_; }
  /// The number of the first row within the epoch.
  int64_t first_row() const { return first_row_; }

 private:
  friend class TorchBatches;
  struct Part {
    std::shared_ptr<arrow::RecordBatch> batch;
    int64_t offset = 0;
    int64_t rows = 0;
  };
  void check_options() const;
  torch::Dtype dtype_of(const std::string& name) const;
  torch::Dtype common_dtype(const std::vector<std::string>& names) const;
  /// Calls with (name, type, parts) of the column.
  template <class F>
  auto with_column(const std::string& name, const F& function) const;

  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t first_row_ = 0;
  TorchDtypes dtypes_;
  TorchPaddings padding_;
};

/// What iter_torch_batches returns: one epoch. You can iterate over it once.
class TorchBatches {
 public:
  /// `next` gives the rows of the next batch, or false at the end.
  TorchBatches(std::function<bool(data::StepSlice&)> next, TorchDtypes dtypes,
               TorchPaddings padding)
      : next_(std::move(next)), dtypes_(std::move(dtypes)), padding_(std::move(padding)) {}

  class Iterator {
   public:
    using value_type = TorchBatch;
    using difference_type = std::ptrdiff_t;
    explicit Iterator(TorchBatches* range) : range_(range) { ++*this; }
    Iterator& operator++() {
      if (!range_->advance()) range_ = nullptr;
      return *this;
    }
    void operator++(int) { ++*this; }
    TorchBatch& operator*() const { return range_->batch_; }
    bool operator==(std::default_sentinel_t) const { return range_ == nullptr; }

   private:
    TorchBatches* range_;
  };
  Iterator begin() { return Iterator(this); }
  std::default_sentinel_t end() { return {}; }

 private:
  bool advance();

  std::function<bool(data::StepSlice&)> next_;
  TorchDtypes dtypes_;
  TorchPaddings padding_;
  TorchBatch batch_;
};

/// One epoch of a worker's data as tensors; see DataShard::iter_batches for where it begins and
/// ends.
TorchBatches iter_torch_batches(const DataShard& shard, const TorchBatchOptions& options = {});
TorchBatches iter_torch_batches(const ShardEpoch& epoch, const TorchBatchOptions& options = {});

struct TorchDatasetOptions {
  int64_t batch_size = 256;
  bool drop_last = false;      ///< Leave out a last batch that is not full.
  int64_t epoch = 0;           ///< Selects the order of a window shuffle.
  TorchDtypes dtypes = {};     ///< As in TorchBatchOptions.
  TorchPaddings padding = {};  ///< As in TorchBatchOptions.
};

/// All rows of a data set as tensors, read ahead in this process. Use it outside of training, e.g.
/// to evaluate a model. In a training loop, use the worker's shard instead: there every worker
/// would read the whole data set.
TorchBatches iter_torch_batches(const Dataset& dataset, const TorchDatasetOptions& options = {});

}  // namespace manta
