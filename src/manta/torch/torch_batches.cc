#include "manta/torch/torch_batches.h"

#include <arrow/array.h>
#include <arrow/record_batch.h>
#include <arrow/type.h>

#include "manta/base/error_internal.h"
#include "manta/data/shard_internal.h"
#include "manta/torch/tensor_column_internal.h"

namespace manta {
namespace {

int index_of(const arrow::Schema& schema, const std::string& name) {
  int index = schema.GetFieldIndex(name);
  if (index >= 0) return index;
  std::string there;
  for (const auto& field : schema.fields()) there += (there.empty() ? "" : ", ") + field->name();
  throw Error(ErrorKind::kNotFound, str("a batch has no column '", name, "'; it has: ", there));
}

}  // namespace

TorchBatch::TorchBatch(std::shared_ptr<arrow::RecordBatch> batch, TorchDtypes dtypes)
    : rows_(batch->num_rows()), dtypes_(std::move(dtypes)) {
  parts_.push_back({std::move(batch), 0, rows_});
  check_dtypes();
}

void TorchBatch::check_dtypes() const {
  if (dtypes_.columns.empty() || parts_.empty()) return;
  for (const auto& [name, dtype] : dtypes_.columns) index_of(*parts_[0].batch->schema(), name);
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

std::optional<int64_t> TorchBatch::vector_width(const std::string& name) const {
  if (parts_.empty()) return std::nullopt;
  const arrow::Schema& schema = *parts_[0].batch->schema();
  return detail::vector_width(*schema.field(index_of(schema, name))->type());
}

void TorchBatch::fill(const std::string& name, torch::Tensor& result, int64_t place,
                      Inexact inexact) const {
  int64_t stride = result.dim() == 2 ? result.size(1) : 1;
  auto* to = static_cast<char*>(result.mutable_data_ptr());
  auto width = static_cast<int64_t>(result.element_size());
  int64_t row = 0;
  for (const Part& part : parts_) {
    auto array = part.batch->column(index_of(*part.batch->schema(), name));
    detail::copy_column({.name = name,
                         .array = *array,
                         .offset = part.offset,
                         .rows = part.rows,
                         .first_row = row,
                         .to = to + (row * stride + place) * width,
                         .stride = stride,
                         .dtype = result.scalar_type(),
                         .inexact = inexact});
    row += part.rows;
  }
}

torch::Tensor TorchBatch::operator[](const std::string& name) const {
  if (dtypes_.all) return column(name, *dtypes_.all);
  if (auto found = dtypes_.columns.find(name); found != dtypes_.columns.end()) {
    return column(name, found->second);
  }
  if (parts_.empty()) throw Error(ErrorKind::kNotFound, "a TorchBatch without rows has no columns");
  const arrow::Schema& schema = *parts_[0].batch->schema();
  return column(name, detail::own_dtype(*schema.field(index_of(schema, name))->type(), name));
}

torch::Tensor TorchBatch::column(const std::string& name, torch::Dtype dtype,
                                 Inexact inexact) const {
  std::vector<int64_t> shape = {rows_};
  if (auto width = vector_width(name)) shape.push_back(*width);
  auto result = torch::empty(shape, dtype);
  fill(name, result, 0, inexact);
  return result;
}

torch::Tensor TorchBatch::columns(const std::vector<std::string>& names) const {
  return columns(names, common_dtype(names));
}

torch::Tensor TorchBatch::columns(const std::vector<std::string>& names, torch::Dtype dtype,
                                  Inexact inexact) const {
  int64_t width = 0;
  for (const auto& name : names) width += vector_width(name).value_or(1);
  auto result = torch::empty({rows_, width}, dtype);
  int64_t place = 0;
  for (const auto& name : names) {
    fill(name, result, place, inexact);
    place += vector_width(name).value_or(1);
  }
  return result;
}

bool TorchBatches::advance() {
  data::StepSlice slice;
  batch_.parts_.clear();
  if (!pass_->next(&slice)) return false;
  for (auto& part : slice.parts) {
    batch_.parts_.push_back({std::move(part.batch), part.offset, part.rows});
  }
  batch_.rows_ = slice.rows;
  batch_.first_row_ = slice.first_row;
  batch_.dtypes_ = dtypes_;
  batch_.check_dtypes();
  return true;
}

TorchBatches iter_torch_batches(const DataShard& shard, const TorchBatchOptions& options) {
  return TorchBatches(
      shard.begin_pass({options.batch_size, options.global_batch_size, options.drop_last}),
      options.dtypes);
}

}  // namespace manta
