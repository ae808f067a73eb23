#include "manta/torch/torch_predictor.h"

#include <arrow/array/array_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>

#include "manta/base/error_internal.h"
#include "manta/io/arrow_status_internal.h"

namespace manta {
namespace {

std::shared_ptr<arrow::DataType> arrow_type(torch::Dtype type) {
  switch (type) {
    case torch::kFloat32:
      return arrow::float32();
    case torch::kFloat64:
      return arrow::float64();
    case torch::kFloat16:
      return arrow::float16();
    case torch::kInt64:
      return arrow::int64();
    case torch::kInt32:
      return arrow::int32();
    case torch::kInt16:
      return arrow::int16();
    case torch::kInt8:
      return arrow::int8();
    case torch::kUInt8:
      return arrow::uint8();
    default:
      throw Error(ErrorKind::kUserCode,
                  manta::str("predict: the model returned a tensor of type ", torch::toString(type),
                             ", which no column holds; return numbers of another type"));
  }
}

std::shared_ptr<arrow::Array> bool_array(const torch::Tensor& flat) {
  arrow::BooleanBuilder builder;
  check(builder.AppendValues(reinterpret_cast<const uint8_t*>(flat.const_data_ptr()), flat.numel()),
        "writing predictions");
  return check(builder.Finish(), "writing predictions");
}

// The values in their own type; bfloat16, which Arrow does not have, as float32, which holds it.
std::shared_ptr<arrow::Array> to_array(torch::Tensor flat) {
  if (flat.scalar_type() == torch::kBFloat16) flat = flat.to(torch::kFloat32);
  if (flat.scalar_type() == torch::kBool) return bool_array(flat);
  auto bytes = arrow::Buffer::FromString(
      std::string(static_cast<const char*>(flat.const_data_ptr()), flat.nbytes()));
  return arrow::MakeArray(arrow::ArrayData::Make(arrow_type(flat.scalar_type()), flat.numel(),
                                                 {nullptr, std::move(bytes)}));
}

// A column of the rows of a matrix: of numbers if it has one column, else of lists of them.
std::shared_ptr<arrow::Array> to_column(const torch::Tensor& tensor) {
  auto flat = tensor.cpu().reshape({-1}).contiguous();
  auto values = to_array(flat);
  int64_t rows = tensor.size(0);
  if (rows == 0 || flat.numel() == rows) return values;
  auto type = arrow::fixed_size_list(values->type(), static_cast<int32_t>(flat.numel() / rows));
  return std::make_shared<arrow::FixedSizeListArray>(type, rows, values);
}

std::string shapes(const std::vector<torch::Tensor>& tensors) {
  std::string all;
  for (const torch::Tensor& tensor : tensors) all += manta::str(" ", tensor.sizes());
  return all;
}

}  // namespace

torch::Tensor TorchPredictor::predict(const torch::Tensor& inputs) const {
  return predict(std::vector<torch::Tensor>{inputs});
}

torch::Tensor TorchPredictor::predict(const std::vector<torch::Tensor>& inputs) const {
  const Forward* forward = nullptr;
  std::string accepted;
  for (size_t i = 0; i < forward_.size(); ++i) {
    if (!forward_[i]) continue;
    if (i + 1 == inputs.size()) forward = &forward_[i];
    accepted += manta::str(accepted.empty() ? "" : " or ", i + 1);
  }
  if (!forward) {
    throw Error(ErrorKind::kInvalidArgument, manta::str("predict: ", inputs.size(),
                                                        " tensors were given, the model's forward "
                                                        "takes ",
                                                        accepted));
  }
  for (const torch::Tensor& input : inputs) {
    if (input.dim() > 0 && inputs[0].dim() > 0 && input.size(0) == inputs[0].size(0)) continue;
    if (inputs.size() == 1) continue;
    throw Error(
        ErrorKind::kInvalidArgument,
        manta::str("predict: the inputs have different rows: they are of shape", shapes(inputs)));
  }
  torch::NoGradGuard no_grad;
  torch::Tensor outputs;
  try {
    outputs = (*forward)(inputs);
  } catch (const c10::Error& error) {
    throw Error(ErrorKind::kUserCode,
                manta::str("predict: the model failed on inputs of shape", shapes(inputs), ": ",
                           error.what_without_backtrace()));
  }
  const torch::Tensor& first = inputs[0];
  if (first.dim() > 0 && (outputs.dim() == 0 || outputs.size(0) != first.size(0))) {
    throw Error(ErrorKind::kUserCode,
                manta::str("predict: the model returned a tensor of shape ", outputs.sizes(),
                           " for inputs of shape", shapes(inputs),
                           "; the first dimension must be the rows"));
  }
  return outputs;
}

std::shared_ptr<arrow::RecordBatch> TorchPredictor::predict(
    const std::shared_ptr<arrow::RecordBatch>& rows, const PredictOptions& options) const {
  if (options.feature_columns.empty() == options.inputs.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                manta::str("predict needs feature_columns, the model's input, or inputs, if it has "
                           "several (was given ",
                           options.inputs.empty() ? "neither)" : "both)"));
  }
  arrow::FieldVector fields;
  arrow::ArrayVector columns;
  for (const auto& name : options.keep_columns) {
    int index = rows->schema()->GetFieldIndex(name);
    if (index < 0) {
      throw Error(ErrorKind::kNotFound,
                  manta::str("predict: there is no column '", name,
                             "' to keep among: ", rows->schema()->ToString()));
    }
    fields.push_back(rows->schema()->field(index));
    columns.push_back(rows->column(index));
  }
  std::vector<PredictInput> wanted = options.inputs;
  if (wanted.empty()) wanted.push_back({.columns = options.feature_columns});
  TorchBatch batch(rows);
  std::vector<torch::Tensor> inputs;
  for (const PredictInput& input : wanted) {
    inputs.push_back(batch.columns(input.columns, input.dtype, input.inexact));
  }
  columns.push_back(to_column(predict(inputs)));
  fields.push_back(arrow::field("predictions", columns.back()->type()));
  return arrow::RecordBatch::Make(arrow::schema(fields), rows->num_rows(), std::move(columns));
}

std::shared_ptr<arrow::Table> TorchPredictor::predict(const Dataset& dataset,
                                                      const PredictOptions& options) const {
  std::vector<std::shared_ptr<arrow::RecordBatch>> batches;
  for (const auto& batch : dataset.iter_batches({.batch_size = options.batch_size})) {
    batches.push_back(predict(batch, options));
  }
  if (batches.empty()) {
    throw Error(ErrorKind::kInvalidArgument, "predict: the data set has no rows");
  }
  return check(arrow::Table::FromRecordBatches(batches), "putting predictions together");
}

}  // namespace manta
