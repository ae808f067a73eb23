#include "manta/torch/to_torch.h"

#include <algorithm>

#include "manta/base/error_internal.h"

namespace manta {
namespace {

TorchBatchOptions batch_options(const ToTorchOptions& options) {
  return {.batch_size = options.batch_size, .drop_last = options.drop_last};
}

ToTorchOptions checked_pairs(const ToTorchOptions& options) {
  const auto& features = options.feature_columns;
  if (!options.label_column.empty() &&
      std::find(features.begin(), features.end(), options.label_column) != features.end()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("to_torch: the label_column '", options.label_column,
                    "' is one of the feature_columns, too: the model would be given its answer"));
  }
  return options;
}

}  // namespace

TorchPairs::TorchPairs(TorchBatches batches, ToTorchOptions options)
    : batches_(std::move(batches)), options_(checked_pairs(options)) {}

// Checks the label first: if its name is misspelt, the column would be taken for a feature.
void TorchPairs::convert(const TorchBatch& batch) {
  if (!options_.label_column.empty()) {
    pair_.second = batch.column(options_.label_column, options_.label_column_dtype);
    bool squeezed = pair_.second.dim() == 1;
    if (options_.unsqueeze_label_tensor && squeezed) pair_.second = pair_.second.unsqueeze(1);
  }
  std::vector<std::string> features = options_.feature_columns;
  if (features.empty()) {
    features = batch.names();
    std::erase(features, options_.label_column);
  }
  if (features.empty()) {
    throw Error(
        ErrorKind::kInvalidArgument,
        str("to_torch: the data has no column but the label, '", options_.label_column, "'"));
  }
  pair_.first = batch.columns(features, options_.feature_column_dtype);
}

TorchPairs to_torch(const DataShard& shard, const ToTorchOptions& options) {
  return TorchPairs(iter_torch_batches(shard, batch_options(options)), options);
}

TorchPairs to_torch(const ShardEpoch& epoch, const ToTorchOptions& options) {
  return TorchPairs(iter_torch_batches(epoch, batch_options(options)), options);
}

TorchPairs to_torch(const Dataset& dataset, const ToTorchOptions& options) {
  return TorchPairs(iter_torch_batches(dataset, {.batch_size = options.batch_size,
                                                 .drop_last = options.drop_last}),
                    options);
}

}  // namespace manta
