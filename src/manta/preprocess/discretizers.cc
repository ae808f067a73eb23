#include "manta/preprocess/discretizers.h"

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/preprocess/number_tally_internal.h"

namespace manta {
namespace {

using preprocess::Extremes;
using preprocess::NumberTally;

constexpr const char* kUniform = "UniformKBinsDiscretizer";
constexpr const char* kCustom = "CustomKBinsDiscretizer";
constexpr int64_t kMostBins = 1 << 20;

internal::Bins bins_for(const char* who, std::vector<std::string> columns,
                        const DiscretizerOptions& options) {
  return internal::Bins(
      internal::Columns::in_pairs(who, std::move(columns), options.output_columns), options);
}

// The edges that pandas.cut makes, to the bit.
std::vector<double> uniform_edges(double min, double max, int64_t bins, bool right) {
  bool constant = min == max;
  if (constant) {
    min -= min != 0 ? 0.001 * std::abs(min) : 0.001;
    max += max != 0 ? 0.001 * std::abs(max) : 0.001;
  }
  std::vector<double> edges;
  double step = (max - min) / static_cast<double>(bins);
  for (int64_t i = 0; i < bins; ++i) edges.push_back(static_cast<double>(i) * step + min);
  edges.push_back(max);
  if (constant) return edges;
  double margin = (max - min) * 0.001;
  if (right) {
    edges.front() -= margin;
  } else {
    edges.back() += margin;
  }
  return edges;
}

template <class Value>
std::map<std::string, Value> for_each_column(const std::vector<std::string>& columns,
                                             const Value& value) {
  std::map<std::string, Value> by_column;
  for (const auto& column : columns) by_column[column] = value;
  return by_column;
}

template <class Value>
void require_columns_of(const std::map<std::string, Value>& by_column,
                        const std::vector<std::string>& columns, const char* who) {
  for (const auto& column : columns) {
    if (by_column.contains(column)) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(who, ": bins has nothing for column '", column, "'"));
  }
}

}  // namespace

UniformKBinsDiscretizer::UniformKBinsDiscretizer(internal::Bins bins,
                                                 std::map<std::string, int64_t> numbers)
    : bins_(std::move(bins)), numbers_(std::move(numbers)) {
  require_columns_of(numbers_, input_columns(), kUniform);
  for (const auto& [column, number] : numbers_) {
    if (number >= 1 && number <= kMostBins) continue;
    throw Error(ErrorKind::kInvalidArgument,
                str(kUniform, ": column '", column, "' needs from 1 to ", kMostBins, " bins (was ",
                    number, ")"));
  }
}

UniformKBinsDiscretizer::UniformKBinsDiscretizer(std::vector<std::string> columns, int64_t bins,
                                                 const DiscretizerOptions& options)
    : UniformKBinsDiscretizer(bins_for(kUniform, columns, options),
                              for_each_column(columns, bins)) {}

UniformKBinsDiscretizer::UniformKBinsDiscretizer(std::vector<std::string> columns,
                                                 std::map<std::string, int64_t> bins,
                                                 const DiscretizerOptions& options)
    : UniformKBinsDiscretizer(bins_for(kUniform, std::move(columns), options), std::move(bins)) {}

void UniformKBinsDiscretizer::check_columns(const arrow::Schema& schema) const {
  preprocess::require_numbers(schema, input_columns(), kUniform);
}

std::unique_ptr<Tally> UniformKBinsDiscretizer::start_tally() const {
  return std::make_unique<NumberTally<Extremes>>(bins_.columns());
}

bool UniformKBinsDiscretizer::finish_tally(Tally& all) {
  std::vector<std::vector<double>> edges;
  for (const auto& extremes : static_cast<NumberTally<Extremes>&>(all).parts()) {
    const std::string& column = bins_.columns().inputs()[edges.size()];
    double min = extremes.min(), max = extremes.max();
    if (!std::isfinite(2 * (max - min))) {
      throw Error(
          ErrorKind::kInvalidArgument,
          str(kUniform, ": the values of column '", column, "' lie between ", min, " and ", max,
              ", too far apart to be cut; remove infinite and huge values with a "
              "filter before"));
    }
    edges.push_back(uniform_edges(min, max, numbers_.at(column), bins_.options().right));
  }
  bins_.set_edges(std::move(edges));
  return true;
}

data::BatchPtr UniformKBinsDiscretizer::transform_batch(const data::BatchPtr& batch) const {
  require_fitted(*this);
  return bins_.transform(batch);
}

Json UniformKBinsDiscretizer::stats() const {
  require_fitted(*this);
  Json stats;
  for (size_t i = 0; i < bins_.edges().size(); ++i) {
    stats[bins_.columns().inputs()[i]] = bins_.edges()[i];
  }
  return stats;
}

Json UniformKBinsDiscretizer::state() const {
  Json state;
  bins_.write(state);
  state["bins"] = numbers_;
  return state;
}

UniformKBinsDiscretizer UniformKBinsDiscretizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto numbers = fields.object("bins");
  std::map<std::string, int64_t> by_column;
  for (const auto& [column, number] : numbers.json().items()) {
    by_column[column] = numbers.integer(column, 1, kMostBins);
  }
  return UniformKBinsDiscretizer(internal::Bins::read(kUniform, fields), std::move(by_column));
}

internal::Bins CustomKBinsDiscretizer::no_bins(std::vector<std::string> columns,
                                               const DiscretizerOptions& options) {
  return bins_for(kCustom, std::move(columns), options);
}

CustomKBinsDiscretizer::CustomKBinsDiscretizer(std::vector<std::string> columns,
                                               const std::vector<double>& bins,
                                               const DiscretizerOptions& options)
    : CustomKBinsDiscretizer(no_bins(std::move(columns), options)) {
  set_edges(for_each_column(input_columns(), bins));
}

void CustomKBinsDiscretizer::set_edges(const std::map<std::string, std::vector<double>>& bins) {
  require_columns_of(bins, input_columns(), kCustom);
  std::vector<std::vector<double>> edges;
  for (const auto& column : input_columns()) edges.push_back(bins.at(column));
  bins_.set_edges(std::move(edges));
}

data::BatchPtr CustomKBinsDiscretizer::transform_batch(const data::BatchPtr& batch) const {
  return bins_.transform(batch);
}

Json CustomKBinsDiscretizer::state() const {
  Json state;
  bins_.write(state);
  return state;
}

CustomKBinsDiscretizer CustomKBinsDiscretizer::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  fields.array("edges");
  return CustomKBinsDiscretizer(internal::Bins::read(kCustom, fields));
}

}  // namespace manta
