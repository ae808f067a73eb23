#include "manta/preprocess/scalers.h"

#include <arrow/api.h>

#include <algorithm>
#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/preprocess/exact_moments_internal.h"
#include "manta/preprocess/number_tally_internal.h"
#include "manta/preprocess/numbers_internal.h"

namespace manta {
namespace {

using preprocess::ExactMoments;
using preprocess::Extremes;
using preprocess::NumberTally;

JsonFields fields_of(const Json& state) { return JsonFields(state, JsonDocument("it")); }

}  // namespace

namespace internal {

void ColumnScaler::check_columns(const arrow::Schema& schema) const {
  preprocess::require_numbers(schema, columns_.inputs(), name());
}

data::BatchPtr ColumnScaler::mapped(const Columns& columns, const data::BatchPtr& batch,
                                    bool inverse) const {
  require_fitted(*this);
  auto arrays = columns.of(*batch);
  for (size_t i = 0; i < arrays.size(); ++i) {
    auto numbers = preprocess::numbers_of(arrays[i], columns.inputs()[i], columns.who());
    auto [offset, divisor] = scales_[i];
    arrays[i] =
        inverse
            ? preprocess::map_numbers(*numbers, [=](double x) { return x * divisor + offset; })
            : preprocess::map_numbers(*numbers, [=](double x) { return (x - offset) / divisor; });
  }
  return columns.with(batch, std::move(arrays));
}

data::BatchPtr ColumnScaler::transform_batch(const data::BatchPtr& batch) const {
  return mapped(columns_, batch, false);
}

data::BatchPtr ColumnScaler::inverse_transform_batch(const data::BatchPtr& batch) const {
  return mapped(before_, batch, true);
}

void ColumnScaler::set(std::vector<Learned> learned, std::vector<Scale> scales) {
  learned_ = std::move(learned);
  scales_ = std::move(scales);
}

Json ColumnScaler::stats() const {
  require_fitted(*this);
  Json stats;
  for (const auto& [name, values] : learned_) {
    for (size_t i = 0; i < values.size(); ++i) {
      stats[str(name, "(", columns_.inputs()[i], ")")] = values[i];
    }
  }
  return stats;
}

Json ColumnScaler::state() const {
  Json state;
  columns_.write(state);
  for (const auto& [name, values] : learned_) state[name] = values;
  return state;
}

std::vector<double> ColumnScaler::read(const JsonFields& fields, const std::string& name) const {
  if (!fields.has(name)) return {};
  std::vector<double> values;
  for (const Json& value : fields.array(name)) {
    if (value.is_number()) values.push_back(value.get<double>());
    if (!value.is_number() || !std::isfinite(values.back())) values.clear();
    if (values.empty()) break;
  }
  if (values.size() != columns_.size()) {
    fields.fail(name, str(columns_.size(), " finite numbers, one for each column"));
  }
  return values;
}

void ColumnScaler::require_range(size_t column, double min, double max) const {
  if (std::isfinite(max - min)) return;
  throw Error(ErrorKind::kInvalidArgument,
              str(name(), ": the values of column '", columns_.inputs()[column], "' lie between ",
                  min, " and ", max,
                  ", too far apart for a float64; remove infinite and huge values with a filter "
                  "before"));
}

}  // namespace internal

StandardScaler::StandardScaler(std::vector<std::string> columns, const ScalerOptions& options)
    : ColumnScaler(internal::Columns::in_pairs("StandardScaler", std::move(columns),
                                               options.output_columns)) {}

std::unique_ptr<Tally> StandardScaler::start_tally() const {
  return std::make_unique<NumberTally<ExactMoments>>(columns_);
}

bool StandardScaler::finish_tally(Tally& all) {
  std::vector<double> means, stds;
  for (const auto& moments : static_cast<NumberTally<ExactMoments>&>(all).parts()) {
    require_range(means.size(), moments.min(), moments.max());
    means.push_back(moments.mean());
    stds.push_back(moments.std());
  }
  set_learned(std::move(means), std::move(stds));
  return true;
}

void StandardScaler::set_learned(std::vector<double> means, std::vector<double> stds) {
  std::vector<Scale> scales;
  for (size_t i = 0; i < means.size(); ++i)
    scales.push_back({means[i], stds[i] == 0 ? 1 : stds[i]});
  set({{"mean", std::move(means)}, {"std", std::move(stds)}}, std::move(scales));
}

StandardScaler StandardScaler::from_state(const Json& state) {
  JsonFields fields = fields_of(state);
  StandardScaler scaler(internal::Columns::read("StandardScaler", fields));
  if (!fields.has("mean") && !fields.has("std")) return scaler;
  fields.array("mean");
  fields.array("std");
  auto means = scaler.read(fields, "mean"), stds = scaler.read(fields, "std");
  for (double std : stds) {
    if (std < 0) fields.fail("std", "no negative number");
  }
  scaler.set_learned(std::move(means), std::move(stds));
  return scaler;
}

MinMaxScaler::MinMaxScaler(std::vector<std::string> columns, const ScalerOptions& options)
    : ColumnScaler(internal::Columns::in_pairs("MinMaxScaler", std::move(columns),
                                               options.output_columns)) {}

std::unique_ptr<Tally> MinMaxScaler::start_tally() const {
  return std::make_unique<NumberTally<Extremes>>(columns_);
}

bool MinMaxScaler::finish_tally(Tally& all) {
  std::vector<double> mins, maxs;
  for (const auto& extremes : static_cast<NumberTally<Extremes>&>(all).parts()) {
    require_range(mins.size(), extremes.min(), extremes.max());
    mins.push_back(extremes.min());
    maxs.push_back(extremes.max());
  }
  set_learned(std::move(mins), std::move(maxs));
  return true;
}

void MinMaxScaler::set_learned(std::vector<double> mins, std::vector<double> maxs) {
  std::vector<Scale> scales;
  for (size_t i = 0; i < mins.size(); ++i) {
    scales.push_back({mins[i], mins[i] == maxs[i] ? 1 : maxs[i] - mins[i]});
  }
  set({{"min", std::move(mins)}, {"max", std::move(maxs)}}, std::move(scales));
}

MinMaxScaler MinMaxScaler::from_state(const Json& state) {
  JsonFields fields = fields_of(state);
  MinMaxScaler scaler(internal::Columns::read("MinMaxScaler", fields));
  if (!fields.has("min") && !fields.has("max")) return scaler;
  fields.array("min");
  fields.array("max");
  auto mins = scaler.read(fields, "min"), maxs = scaler.read(fields, "max");
  for (size_t i = 0; i < mins.size(); ++i) {
    if (!(maxs[i] >= mins[i] && std::isfinite(maxs[i] - mins[i]))) {
      fields.fail("max", "numbers from min on, at finite distances of it");
    }
  }
  scaler.set_learned(std::move(mins), std::move(maxs));
  return scaler;
}

MaxAbsScaler::MaxAbsScaler(std::vector<std::string> columns, const ScalerOptions& options)
    : ColumnScaler(internal::Columns::in_pairs("MaxAbsScaler", std::move(columns),
                                               options.output_columns)) {}

std::unique_ptr<Tally> MaxAbsScaler::start_tally() const {
  return std::make_unique<NumberTally<Extremes>>(columns_);
}

bool MaxAbsScaler::finish_tally(Tally& all) {
  std::vector<double> abs_maxs;
  for (const auto& extremes : static_cast<NumberTally<Extremes>&>(all).parts()) {
    abs_maxs.push_back(std::max(std::abs(extremes.min()), std::abs(extremes.max())));
    require_range(abs_maxs.size() - 1, std::min(0., extremes.min()), std::max(0., extremes.max()));
  }
  set_learned(std::move(abs_maxs));
  return true;
}

void MaxAbsScaler::set_learned(std::vector<double> abs_maxs) {
  std::vector<Scale> scales;
  for (double most : abs_maxs) scales.push_back({0, most == 0 ? 1 : most});
  set({{"abs_max", std::move(abs_maxs)}}, std::move(scales));
}

MaxAbsScaler MaxAbsScaler::from_state(const Json& state) {
  JsonFields fields = fields_of(state);
  MaxAbsScaler scaler(internal::Columns::read("MaxAbsScaler", fields));
  if (!fields.has("abs_max")) return scaler;
  auto abs_maxs = scaler.read(fields, "abs_max");
  for (double most : abs_maxs) {
    if (most < 0) fields.fail("abs_max", "no negative number");
  }
  scaler.set_learned(std::move(abs_maxs));
  return scaler;
}

}  // namespace manta
