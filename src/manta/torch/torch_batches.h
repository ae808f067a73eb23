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
  /// For a table that a program puts together.
  TorchDtypes(std::map<std::string, torch::Dtype> columns)  // NOLINT: as the one above
      : columns(std::move(columns)) {}

  std::optional<torch::Dtype> all = {};
  std::map<std::string, torch::Dtype> columns = {};
};

/// What happens to a number that the wanted type does not have: 2.7 or 300 as uint8, NaN or a null
/// as an integer, 16777217 as float32, 2^63 as int64, 1e300 as float32.
enum class Inexact {
  kRefused,  ///< Error(kInvalidArgument) naming the column, the row and the value.
  /// The nearest: rounded as float32, the fraction cut off (2.7 is 2) and limited to the range (300
  /// is 255) as an integer; NaN and nulls are 0 there. As bool: whether it is not 0.
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
  /// Of the tensors. By default each column keeps its type, and `columns` gives float32. A name
  /// that the data does not have is an error.
  TorchDtypes dtypes = {};
  /// Columns of lists that are filled up. Others must have rows of equal length in each batch.
  TorchPaddings padding = {};
};

/// Some rows as tensors. Columns are converted when they are asked for, and numbers arrive as they
/// are, or it is an error (see Inexact). Rounding between floating-point types, e.g. of a double as
/// float32, is no error, because asking for float32 asks for that. A null is NaN; in an integer or
/// bool tensor it is an error.
///
/// The shape of a row is that of the column's type: fixed-size lists of fixed-size lists (images of
/// read_images, arrays of read_numpy, vectors of OneHotEncoder and Concatenator) have the sizes of
/// their type. Lists, and binary values as bytes, have the length that all rows of the batch have;
/// where they differ it is an error, unless `padding` names the column or `ragged` is asked for.
///
/// All of them throw Error(kNotFound) naming columns that are like the unknown one, and
/// Error(kInvalidArgument) if there are no numbers, bool or times in a column (decimals, text,
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
  /// Several columns side by side: [rows, columns], a vector (or image) as so many columns as it
  /// has elements; float32, unless `dtypes` gives one type for all of them.
  torch::Tensor columns(const std::vector<std::string>& names) const;
  torch::Tensor columns(const std::vector<std::string>& names, torch::Dtype dtype,
                        Inexact inexact = Inexact::kRefused) const;
  /// A column of lists, or of binary values, of any lengths; of its own type, or that of `dtypes`.
  RaggedTensor ragged(const std::string& name) const;
  RaggedTensor ragged(const std::string& name, torch::Dtype dtype,
                      Inexact inexact = Inexact::kRefused) const;
  std::vector<std::string> names() const;  ///< Of the columns.
  int64_t rows() const { return rows_; }
  /// The epoch's number of the first of them.
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

/// What iter_torch_batches returns: one epoch, to be walked through once.
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

/// One epoch of a worker's data as tensors: DataShard::iter_batches says from where to where.
TorchBatches iter_torch_batches(const DataShard& shard, const TorchBatchOptions& options = {});
TorchBatches iter_torch_batches(const ShardEpoch& epoch, const TorchBatchOptions& options = {});

struct TorchDatasetOptions {
  int64_t batch_size = 256;
  bool drop_last = false;      ///< Leave out a last batch that is not full.
  int64_t epoch = 0;           ///< Selects the order of a window shuffle.
  TorchDtypes dtypes = {};     ///< As in TorchBatchOptions.
  TorchPaddings padding = {};  ///< As in TorchBatchOptions.
};

/// All rows of a data set as tensors, read ahead in this process; outside of training, e.g. to
/// evaluate a model. In a training loop, take the worker's shard instead: a data set there would be
/// read by every worker as a whole.
TorchBatches iter_torch_batches(const Dataset& dataset, const TorchDatasetOptions& options = {});

}  // namespace manta
