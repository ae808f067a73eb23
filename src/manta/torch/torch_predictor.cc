#include "manta/torch/torch_predictor.h"

#include <arrow/array/array_nested.h>
#include <arrow/array/builder_primitive.h>
#include <arrow/array/data.h>
#include <arrow/array/util.h>
#include <arrow/buffer.h>
#include <arrow/record_batch.h>

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
  auto values = to_array(tensor.cpu().reshape({-1}).contiguous());
  int64_t rows = tensor.size(0), width = 1;
  for (int64_t size : tensor.sizes().slice(1)) width *= size;
  if (width == 1) return values;
  auto type = arrow::fixed_size_list(values->type(), static_cast<int32_t>(width));
  return std::make_shared<arrow::FixedSizeListArray>(type, rows, values);
}

std::string shapes(const std::vector<torch::Tensor>& tensors) {
  std::string all;
  for (const torch::Tensor& tensor : tensors) all += manta::str(" ", tensor.sizes());
  return all;
}

std::vector<PredictInput> inputs_of(const TorchPredictorOptions& options) {
  if (!options.feature_columns.empty() && !options.inputs.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "TorchPredictor: feature_columns is the model's only input, and inputs are "
                "several; give one of them");
  }
  if (options.feature_columns.empty()) return options.inputs;
  return {{.columns = options.feature_columns}};
}

std::vector<std::string> columns_of(const std::vector<PredictInput>& inputs) {
  std::vector<std::string> names;
  for (const auto& input : inputs) {
    names.insert(names.end(), input.columns.begin(), input.columns.end());
  }
  return names;
}

}  // namespace

TorchPredictor::TorchPredictor(const TorchPredictorOptions& options, AnyPreprocessor preprocessor)
    : Predictor(std::move(preprocessor), columns_of(inputs_of(options))),
      inputs_(inputs_of(options)) {}

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

data::BatchPtr TorchPredictor::predict_features(const data::BatchPtr& features) const {
  if (inputs_.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                "predict: this TorchPredictor was made without feature_columns or inputs, so it "
                "takes tensors only");
  }
  TorchBatch batch(features);
  std::vector<torch::Tensor> inputs;
  for (const PredictInput& input : inputs_) {
    inputs.push_back(batch.columns(input.columns, input.dtype, input.inexact));
  }
  auto column = to_column(predict(inputs));
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", column->type())}),
                                  features->num_rows(), {column});
}

}  // namespace manta
