#include "manta/torch/torch_predictor.h"

#include <arrow/array/array_nested.h>
#include <arrow/array/array_primitive.h>
#include <arrow/record_batch.h>
#include <arrow/table.h>

#include "manta/base/error.h"
#include "manta/io/arrow_status.h"

namespace manta {
namespace {

// A column of the rows of a matrix: of numbers if it has one column, else of lists of them.
std::shared_ptr<arrow::Array> to_column(const torch::Tensor& tensor) {
  auto flat = tensor.to(torch::kFloat32).reshape({-1}).contiguous();
  auto bytes =
      arrow::Buffer::FromString(std::string(reinterpret_cast<const char*>(flat.data_ptr<float>()),
                                            static_cast<size_t>(flat.numel()) * sizeof(float)));
  auto values = std::make_shared<arrow::FloatArray>(flat.numel(), std::move(bytes));
  int64_t rows = tensor.size(0);
  if (rows == 0 || flat.numel() == rows) return values;
  auto type = arrow::fixed_size_list(arrow::float32(), static_cast<int32_t>(flat.numel() / rows));
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
