#include "manta/torch/torch_batches.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/data/batch_cutter_internal.h"
#include "manta/data/plain_columns_internal.h"
#include "manta/data/shard_internal.h"
#include "manta/data/unknown_column_internal.h"
#include "manta/torch/tensor_column_internal.h"

namespace manta {
namespace {

int index_of(const arrow::Schema& schema, const std::string& name) {
  int index = schema.GetFieldIndex(name);
  if (index >= 0) return index;
  throw Error(ErrorKind::kNotFound,
              str("a batch: ", data::no_such_column(name, schema.field_names())));
}

}  // namespace

TorchBatch::TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, TorchDtypes dtypes,
                       TorchPaddings padding)
    : rows_(batch->num_rows()), dtypes_(std::move(dtypes)), padding_(std::move(padding)) {
  parts_.push_back({std::move(batch), 0, rows_});
  check_options();
}

std::vector<std::string> TorchBatch::names() const {
  return parts_.empty() ? std::vector<std::string>() : parts_[0].batch->schema()->field_names();
}

void TorchBatch::check_options() const {
  if (parts_.empty()) return;
  const arrow::Schema& schema = *parts_[0].batch->schema();
  for (const auto& [name, dtype] : dtypes_.columns) index_of(schema, name);
  for (const auto& [name, padding] : padding_) index_of(schema, name);
}

torch::Dtype TorchBatch::common_dtype(const std::vector<std::string>& names) const {
  std::optional<torch::Dtype> common = dtypes_.all;
  size_t given = 0;
  for (const std::string& name : names) {
    auto found = dtypes_.columns.find(name);
    if (found == dtypes_.columns.end()) continue;
    if (given++ == 0) common = found->second;
    if (common != found->second) given = names.size() + 1;
  }
  if (given > 0 && given != names.size()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("columns(): dtypes does not give one type for all of the ", names.size(),
                    " columns, which become one tensor: say which with columns(names, dtype)"));
  }
  return common.value_or(torch::kFloat32);
}

template <class F>
auto TorchBatch::with_column(const std::string& name, const F& function) const {
  if (parts_.empty()) throw Error(ErrorKind::kNotFound, "a TorchBatch without rows has no columns");
  const arrow::Schema& schema = *parts_[0].batch->schema();
  std::vector<detail::ColumnRows> parts;
  for (const Part& part : parts_) {
    int index = index_of(*part.batch->schema(), name);
    parts.push_back({part.batch->column(index), part.offset, part.rows});
  }
  return function(name, schema.field(index_of(schema, name))->type(), parts);
}

torch::Dtype TorchBatch::dtype_of(const std::string& name) const {
  if (dtypes_.all) return *dtypes_.all;
  auto found = dtypes_.columns.find(name);
  if (found != dtypes_.columns.end()) return found->second;
  return with_column(name, [](const auto& column, const auto& type, const auto&) {
    return detail::own_dtype(*type, column);
  });
}

torch::Tensor TorchBatch::operator[](const std::string& name) const {
  return column(name, dtype_of(name));
}

torch::Tensor TorchBatch::column(const std::string& name, torch::Dtype dtype,
                                 Inexact inexact) const {
  auto padding = padding_.find(name);
  if (padding == padding_.end()) {
    return detail::to_tensor(with_column(name, detail::rectangular), dtype, inexact);
  }
  return detail::to_padded_tensor(with_column(name, detail::ragged), padding->second, dtype,
                                  inexact);
}

torch::Tensor TorchBatch::columns(const std::vector<std::string>& names) const {
  return columns(names, common_dtype(names));
}

torch::Tensor TorchBatch::columns(const std::vector<std::string>& names, torch::Dtype dtype,
                                  Inexact inexact) const {
  struct Source {
    detail::TensorColumn column;
    std::optional<torch::Tensor> padded;
    int64_t width = 0;
  };
  std::vector<Source> sources;
  int64_t width = 0;
  for (const auto& name : names) {
    Source& source = sources.emplace_back();
    if (padding_.contains(name)) {
      source.padded = column(name, dtype, inexact);
      source.width = source.padded->numel() / std::max<int64_t>(rows_, 1);
    } else {
      source.column = with_column(name, detail::rectangular);
      source.width = source.column.width();
    }
    width += source.width;
  }
  auto result = torch::empty({rows_, width}, dtype);
  int64_t place = 0;
  for (const auto& source : sources) {
    if (source.padded) {
      result.narrow(1, place, source.width).copy_(source.padded->reshape({rows_, source.width}));
    } else {
      detail::copy_into(result, place, source.column, inexact);
    }
    place += source.width;
  }
  return result;
}

RaggedTensor TorchBatch::ragged(const std::string& name) const {
  return ragged(name, dtype_of(name));
}

RaggedTensor TorchBatch::ragged(const std::string& name, torch::Dtype dtype,
                                Inexact inexact) const {
  detail::RaggedColumn column = with_column(name, detail::ragged);
  return {detail::to_tensor(column.elements, dtype, inexact),
          torch::tensor(column.offsets, torch::kInt64)};
}

bool TorchBatches::advance() {
  data::StepSlice slice;
  batch_.parts_.clear();
  if (!next_(slice)) return false;
  for (auto& part : slice.parts) {
    batch_.parts_.push_back({std::move(part.batch), part.offset, part.rows});
  }
  batch_.rows_ = slice.rows;
  batch_.first_row_ = slice.first_row;
  batch_.dtypes_ = dtypes_;
  batch_.padding_ = padding_;
  batch_.check_options();
  return true;
}

namespace {

TorchBatches batches_of(std::shared_ptr<data::ShardPass> pass, const TorchBatchOptions& options) {
  return TorchBatches(
      [pass = std::move(pass)](data::StepSlice& slice) { return pass->next(&slice); },
      options.dtypes, options.padding);
}

ShardBatchOptions shard_options(const TorchBatchOptions& options) {
  return {options.batch_size, options.global_batch_size, options.drop_last};
}

}  // namespace

TorchBatches iter_torch_batches(const DataShard& shard, const TorchBatchOptions& options) {
  return batches_of(shard.begin_pass(shard_options(options)), options);
}

TorchBatches iter_torch_batches(const ShardEpoch& epoch, const TorchBatchOptions& options) {
  return batches_of(epoch.begin_pass(shard_options(options)), options);
}

TorchBatches iter_torch_batches(const Dataset& dataset, const TorchDatasetOptions& options) {
  auto cutter = std::make_shared<data::BatchCutter>(
      dataset.plan(), BatchOptions{options.batch_size, options.drop_last, options.epoch},
      "iter_torch_batches");
  auto next = [cutter, row = int64_t{0}](data::StepSlice& slice) mutable {
    slice.first_row = row;
    for (auto& batch : cutter->next()) {
      slice.rows += batch->num_rows();
      // As a data reader does before it sends batches, so that both accept the same columns.
      slice.parts.push_back({data::without_shared_values(batch), 0, batch->num_rows()});
    }
    slice.step_rows = slice.rows;
    row += slice.rows;
    return slice.rows > 0;
  };
  return TorchBatches(next, options.dtypes, options.padding);
}

}  // namespace manta
