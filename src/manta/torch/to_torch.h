#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "manta/torch/torch_batches.h"

namespace manta {

struct ToTorchOptions {
  /// Empty: there is no label, and the second of each pair is an undefined tensor.
  std::string label_column = {};
  /// Side by side, in this order. Default: all columns except the label, in their order.
  std::vector<std::string> feature_columns = {};
  torch::Dtype label_column_dtype = torch::kFloat32;
  torch::Dtype feature_column_dtype = torch::kFloat32;  ///< One for all: they are one tensor.
  int64_t batch_size = 256;  ///< Rows; of a shard, for each worker and step.
  bool drop_last = false;    ///< Leave out a last batch of fewer rows.
  /// Labels of shape [rows, 1], as a model with one output gives them; else [rows]. Classes for a
  /// cross entropy are [rows], of kInt64.
  bool unsqueeze_label_tensor = true;
};

/// What to_torch returns: pairs of features, of shape [rows, columns], and labels. You can iterate
/// over it once.
class TorchPairs {
 public:
  using Pair = std::pair<torch::Tensor, torch::Tensor>;
  TorchPairs(TorchBatches batches, ToTorchOptions options);

  class Iterator {
   public:
    using value_type = Pair;
    using difference_type = std::ptrdiff_t;
    Iterator(TorchPairs* pairs, TorchBatches::Iterator at) : pairs_(pairs), at_(at) { convert(); }
    Iterator& operator++() {
      ++at_;
      convert();
      return *this;
    }
    void operator++(int) { ++*this; }
    Pair& operator*() const { return pairs_->pair_; }
    bool operator==(std::default_sentinel_t end) const { return at_ == end; }

   private:
    void convert() {
      if (!(at_ == std::default_sentinel)) pairs_->convert(*at_);
    }
    TorchPairs* pairs_;
    TorchBatches::Iterator at_;
  };
  Iterator begin() { return Iterator(this, batches_.begin()); }
  std::default_sentinel_t end() { return {}; }

 private:
  void convert(const TorchBatch& batch);

  TorchBatches batches_;
  const ToTorchOptions options_;
  Pair pair_;
};

/// Features and labels, batch by batch:
///
///     for (auto& [features, label] : to_torch(epoch, {.label_column = "y", .batch_size = 64})) {
///       auto loss = torch::mse_loss(model->forward(features), label);
///
/// Numbers become tensors by the rules of TorchBatch. For a worker's shard: its next epoch, or one
/// that `iter_epochs` gives. For a data set: all of its rows, in the order of its first epoch.
TorchPairs to_torch(const DataShard& shard, const ToTorchOptions& options = {});
TorchPairs to_torch(const ShardEpoch& epoch, const ToTorchOptions& options = {});
TorchPairs to_torch(const Dataset& dataset, const ToTorchOptions& options = {});

}  // namespace manta
