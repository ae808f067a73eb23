#pragma once

#include <torch/torch.h>

#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "manta/data/shard.h"

namespace arrow {
class RecordBatch;
}

namespace manta {

struct TorchBatchOptions {
  int64_t batch_size = 256;              ///< Rows for each worker and step.
  int64_t global_batch_size = 0;         ///< Rows of a step for all workers together, instead.
  bool drop_last = false;                ///< Leave out a last step of fewer rows.
  torch::Dtype dtype = torch::kFloat32;  ///< Of the tensors, whatever the columns are.
};

/// Some rows as tensors. Columns are converted when they are asked for.
class TorchBatch {
 public:
  TorchBatch() = default;
  /// Of rows in memory.
  TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, torch::Dtype dtype);

  /// One column: a tensor of shape [rows]. A null is NaN; for an integer dtype it is an error.
  /// Throws Error(kNotFound) listing the columns that there are, Error(kInvalidArgument) if it is
  /// not of numbers or booleans.
  torch::Tensor operator[](const std::string& column) const;
  torch::Tensor column(const std::string& name, torch::Dtype dtype) const;
  /// Several columns side by side: [rows, columns].
  torch::Tensor columns(const std::vector<std::string>& names) const;
  int64_t rows() const { return rows_; }
  /// The epoch's number of the first of them.
  int64_t first_row() const { return first_row_; }

 private:
  friend class TorchBatches;
  struct Piece {
    std::shared_ptr<arrow::RecordBatch> batch;
    int64_t offset = 0;
    int64_t rows = 0;
  };
  void fill(const std::vector<std::string>& names, torch::Tensor& result) const;

  std::vector<Piece> pieces_;
  int64_t rows_ = 0;
  int64_t first_row_ = 0;
  torch::Dtype dtype_ = torch::kFloat32;
};

/// What DataShard::iter_torch_batches returns: one epoch, to be walked through once.
class TorchBatches {
 public:
  TorchBatches(std::shared_ptr<data::ShardPass> pass, torch::Dtype dtype)
      : pass_(std::move(pass)), dtype_(dtype) {}

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
  torch::Dtype dtype_;
  TorchBatch batch_;
};

}  // namespace manta
