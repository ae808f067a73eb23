#include "manta/preprocess/row_transformers.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta {
namespace {

using DoublesPtr = std::shared_ptr<arrow::DoubleArray>;

double add_to_norm(const std::string& norm, double so_far, double x) {
  if (norm == "l1") return so_far + std::abs(x);
  if (norm == "max") return std::max(so_far, std::abs(x));
  return so_far + x * x;
}

// The norm of one row, summed in the columns' order. Squares that would overflow, or vanish, are
// scaled first.
double norm_of(const std::string& norm, const std::vector<DoublesPtr>& columns, int64_t row) {
  double sum = 0, most = 0;
  for (const auto& column : columns) {
    if (column->IsNull(row) || std::isnan(column->Value(row))) continue;
    sum = add_to_norm(norm, sum, column->Value(row));
    most = std::max(most, std::abs(column->Value(row)));
  }
  if (norm != "l2") return sum;
  if (most == 0 || std::isinf(most) || (most > 1e-140 && most < 1e140)) return std::sqrt(sum);
  double scaled = 0;
  for (const auto& column : columns) {
    if (column->IsNull(row) || std::isnan(column->Value(row))) continue;
    double part = column->Value(row) / most;
    scaled += part * part;
  }
  return most * std::sqrt(scaled);
}

double yeo_johnson(double x, double power) {
  if (x >= 0) return power == 0 ? std::log(x + 1) : (std::pow(x + 1, power) - 1) / power;
  return power == 2 ? -std::log(-x + 1) : -(std::pow(-x + 1, 2 - power) - 1) / (2 - power);
}

double box_cox(double x, double power) {
  return power == 0 ? std::log(x) : (std::pow(x, power) - 1) / power;
}

}  // namespace

Normalizer::Normalizer(std::vector<std::string> columns, const NormalizerOptions& options)
    : columns_(
          internal::Columns::in_pairs("Normalizer", std::move(columns), options.output_columns)),
      norm_(options.norm) {
  if (norm_ == "l1" || norm_ == "l2" || norm_ == "max") return;
  throw Error(ErrorKind::kInvalidArgument,
              str("Normalizer: norm must be \"l1\", \"l2\" or \"max\" (was \"", norm_, "\")"));
}

data::BatchPtr Normalizer::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  std::vector<DoublesPtr> numbers;
  for (size_t i = 0; i < arrays.size(); ++i) {
    numbers.push_back(preprocess::numbers_of(arrays[i], columns_.inputs()[i], name()));
  }
  std::vector<double> norms;
  for (int64_t row = 0; row < batch->num_rows(); ++row) {
    double norm = norm_of(norm_, numbers, row);
    norms.push_back(norm == 0 ? 1 : norm);
  }
  for (size_t i = 0; i < arrays.size(); ++i) {
    const double* norm = norms.data();
    arrays[i] = preprocess::map_numbers(*numbers[i], [&](double x) { return x / *norm++; });
  }
  return columns_.with(batch, std::move(arrays));
}

Json Normalizer::state() const {
  Json state;
  columns_.write(state);
  state["norm"] = norm_;
  return state;
}

Normalizer Normalizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("Normalizer", fields);
  return Normalizer(columns.inputs(),
                    {.norm = fields.text("norm"), .output_columns = columns.outputs()});
}

PowerTransformer::PowerTransformer(std::vector<std::string> columns, double power,
                                   const PowerTransformerOptions& options)
    : columns_(internal::Columns::in_pairs("PowerTransformer", std::move(columns),
                                           options.output_columns)),
      power_(power),
      method_(options.method) {
  if (method_ != "yeo-johnson" && method_ != "box-cox") {
    throw Error(ErrorKind::kInvalidArgument,
                str("PowerTransformer: method must be \"yeo-johnson\" or \"box-cox\" (was \"",
                    method_, "\")"));
  }
  if (!std::isfinite(power_)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("PowerTransformer: power must be finite (was ", power_, ")"));
  }
}

data::BatchPtr PowerTransformer::transform_batch(const data::BatchPtr& batch) const {
  auto arrays = columns_.of(*batch);
  bool is_box_cox = method_ == "box-cox";
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto numbers = preprocess::numbers_of(arrays[i], columns_.inputs()[i], name());
    for (int64_t row = 0; is_box_cox && row < numbers->length(); ++row) {
      if (numbers->IsNull(row) || !(numbers->Value(row) <= 0)) continue;
      throw Error(
          ErrorKind::kInvalidArgument,
          str("PowerTransformer: column '", columns_.inputs()[i], "' holds ", numbers->Value(row),
              " in row ", row, " of the batch; box-cox is for numbers above 0: use yeo-johnson"));
    }
    arrays[i] = preprocess::map_numbers(*numbers, [&](double x) {
      return is_box_cox ? box_cox(x, power_) : yeo_johnson(x, power_);
    });
  }
  return columns_.with(batch, std::move(arrays));
}

Json PowerTransformer::state() const {
  Json state;
  columns_.write(state);
  state["power"] = power_;
  state["method"] = method_;
  return state;
}

PowerTransformer PowerTransformer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("PowerTransformer", fields);
  constexpr double kMost = std::numeric_limits<double>::max();
  return PowerTransformer(columns.inputs(), fields.number("power", -kMost, kMost),
                          {.method = fields.text("method"), .output_columns = columns.outputs()});
}

}  // namespace manta
