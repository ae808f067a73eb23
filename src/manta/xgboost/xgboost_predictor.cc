#include "manta/xgboost/xgboost_predictor.h"

#include <arrow/api.h>

#include <cstring>

#include "manta/io/arrow_status_internal.h"
#include "manta/xgboost/booster_internal.h"
#include "manta/xgboost/c_api_internal.h"
#include "manta/xgboost/float_rows_internal.h"

namespace manta {
namespace {

using xgboost::array_interface;
using xgboost::Booster;
using xgboost::check_call;
using xgboost::FloatRows;

constexpr const char* kHowToPredict =
    R"({"type":0,"training":false,"iteration_begin":0,"iteration_end":0,"missing":NaN,)"
    R"("strict_shape":false,"cache_id":0})";

struct Predictions {
  const float* values = nullptr;
  const uint64_t* shape = nullptr;
  uint64_t dimensions = 0;
};

// The library's object for rows. There is one for each thread: making it costs more than a
// prediction.
void* proxy_of_thread() {
  thread_local xgboost::MatrixHandle proxy;
  if (!proxy) {
    void* made = nullptr;
    check_call(XGProxyDMatrixCreate(&made), "preparing to predict");
    proxy.reset(made);
  }
  return proxy.get();
}

std::vector<std::string> names_of(const std::vector<xgboost::FeatureColumn>& columns) {
  std::vector<std::string> names;
  for (const auto& column : columns) names.push_back(column.name);
  return names;
}

// Valid until the thread predicts again.
Predictions predict_floats(const Booster& booster, const float* rows, int64_t count,
                           int64_t columns) {
  Predictions predictions;
  int result = XGBoosterPredictFromDense(
      booster.handle(), array_interface(rows, count, columns).c_str(), kHowToPredict,
      proxy_of_thread(), &predictions.shape, &predictions.dimensions, &predictions.values);
  if (result != 0) check_call(result, "predicting with XGBoost");
  return predictions;
}

}  // namespace

XGBoostPredictor::XGBoostPredictor(AnyPreprocessor preprocessor, std::shared_ptr<Booster> booster,
                                   std::vector<xgboost::FeatureColumn> columns)
    : Predictor(std::move(preprocessor), names_of(columns)),
      booster_(std::move(booster)),
      columns_(std::make_shared<const std::vector<xgboost::FeatureColumn>>(std::move(columns))),
      features_(names_of(*columns_)),
      label_column_(booster_->attribute(xgboost::kLabelAttribute)) {
  // A prediction for a row of missing values shows the shape of predictions, and prepares the
  // library for threads.
  std::vector<float> missing(xgboost::feature_names(*columns_).size(), NAN);
  auto one = predict_floats(*booster_, missing.data(), 1, static_cast<int64_t>(missing.size()));
  if (one.dimensions < 2) return;
  width_ = 1;
  for (uint64_t i = 1; i < one.dimensions; ++i) width_ *= static_cast<int64_t>(one.shape[i]);
}

XGBoostPredictor XGBoostPredictor::from_checkpoint(const Checkpoint& checkpoint) {
  std::string path = checkpoint.file(xgboost::kModelFile);
  auto booster = std::make_shared<Booster>(Booster::load(path));
  booster->set("nthread", "1");
  auto features = xgboost::feature_columns(*booster, path);
  if (features.empty()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("the model in '", path,
                    "' does not name its features, so columns cannot be found for them: train it "
                    "with feature names"));
  }
  return XGBoostPredictor(checkpoint.get_preprocessor(), std::move(booster), std::move(features));
}

data::BatchPtr XGBoostPredictor::predict_features(const data::BatchPtr& features) const {
  int64_t rows = features->num_rows(), numbers = rows * std::max<int64_t>(width_, 1);
  auto buffer = check(arrow::AllocateBuffer(numbers * static_cast<int64_t>(sizeof(float))),
                      "memory for predictions");
  if (rows > 0) {
    FloatRows floats(*columns_, "what is to be predicted");
    floats.append(*features, 0, rows, 0);
    auto predictions = predict_floats(*booster_, floats.data(), rows, floats.columns());
    std::memcpy(buffer->mutable_data(), predictions.values, static_cast<size_t>(buffer->size()));
  }
  auto values = arrow::MakeArray(arrow::ArrayData::Make(
      arrow::float32(), numbers, {nullptr, std::shared_ptr<arrow::Buffer>(std::move(buffer))}));
  if (width_ > 0) {
    auto type = arrow::fixed_size_list(arrow::float32(), static_cast<int32_t>(width_));
    values = std::make_shared<arrow::FixedSizeListArray>(type, rows, values);
  }
  return arrow::RecordBatch::Make(arrow::schema({arrow::field("predictions", values->type())}),
                                  rows, {values});
}

}  // namespace manta
