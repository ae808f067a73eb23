#pragma once

#include <torch/types.h>

#include <initializer_list>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/data/shard.h"

namespace arrow {
class RecordBatch;
}

namespace manta {

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

struct TorchBatchOptions {
  int64_t batch_size = 256;       ///< Rows for each worker and step.
  int64_t global_batch_size = 0;  ///< Rows of a step for all workers together, instead.
  bool drop_last = false;         ///< Leave out a last step of fewer rows.
  /// Of the tensors. By default each column keeps its type, and `columns` gives float32. A name
  /// that the data does not have is an error.
  TorchDtypes dtypes = {};
};

/// Some rows as tensors. Columns are converted when they are asked for, and numbers arrive as they
/// are, or it is an error (see Inexact). Rounding between floating-point types, e.g. of a double as
/// float32, is no error: whoever asks for float32 wants that. A null is NaN; in an integer or bool
/// tensor it is an error.
///
/// All of them throw Error(kNotFound) listing the columns that there are, and
/// Error(kInvalidArgument) if a column is not of numbers, bool, times, or vectors (fixed_size_list)
/// of them, as OneHotEncoder and Concatenator make them: decimals, text, lists of different
/// lengths, dictionaries.
class TorchBatch {
 public:
  TorchBatch() = default;
  /// Of rows in memory.
  explicit TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, TorchDtypes dtypes = {});

  /// One column: a tensor of shape [rows], or [rows, elements] for vectors, of its own type or of
  /// the one that `dtypes` gives.
  torch::Tensor operator[](const std::string& column) const;
  torch::Tensor column(const std::string& name, torch::Dtype dtype,
                       Inexact inexact = Inexact::kRefused) const;
  /// Several columns side by side: [rows, columns], a vector as so many columns as it has elements;
  /// float32, unless `dtypes` gives one type for all of them.
  torch::Tensor columns(const std::vector<std::string>& names) const;
  torch::Tensor columns(const std::vector<std::string>& names, torch::Dtype dtype,
                        Inexact inexact = Inexact::kRefused) const;
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
  void check_dtypes() const;
  torch::Dtype common_dtype(const std::vector<std::string>& names) const;
  std::optional<int64_t> vector_width(const std::string& name) const;
  void fill(const std::string& name, torch::Tensor& result, int64_t place, Inexact inexact) const;

  std::vector<Part> parts_;
  int64_t rows_ = 0;
  int64_t first_row_ = 0;
  TorchDtypes dtypes_;
};

/// What iter_torch_batches returns: one epoch, to be walked through once.
class TorchBatches {
 public:
  TorchBatches(std::shared_ptr<data::ShardPass> pass, TorchDtypes dtypes)
      : pass_(std::move(pass)), dtypes_(std::move(dtypes)) {}

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

  std::shared_ptr<data::ShardPass> pass_;
  TorchDtypes dtypes_;
  TorchBatch batch_;
};

/// One epoch of a worker's data as tensors: DataShard::iter_batches says from where to where.
TorchBatches iter_torch_batches(const DataShard& shard, const TorchBatchOptions& options = {});

}  // namespace manta
