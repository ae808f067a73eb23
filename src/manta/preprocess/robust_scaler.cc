#include "manta/preprocess/robust_scaler.h"

#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/preprocess/number_tally_internal.h"
#include "manta/preprocess/quantiles_internal.h"

namespace manta {

using preprocess::NumberTally;
using preprocess::QuantileSearch;
using preprocess::QuantileTally;

struct RobustScaler::Search {
  std::vector<QuantileSearch> by_column;
  preprocess::RoomForValues room = preprocess::room_for_values();
};

RobustScaler::RobustScaler(std::vector<std::string> columns, const RobustScalerOptions& options)
    : ColumnScaler(
          internal::Columns::in_pairs("RobustScaler", std::move(columns), options.output_columns)),
      range_(options.quantile_range) {
  auto [low, high] = range_;
  if (!(low >= 0 && low < high && high <= 1)) {
    throw Error(ErrorKind::kInvalidArgument,
                str("RobustScaler: quantile_range must be two numbers between 0 and 1, the first "
                    "below the second (was ",
                    low, ", ", high, ")"));
  }
}

void RobustScaler::start_learning() {
  search_ = std::make_shared<Search>();
  search_->by_column.assign(columns_.size(), QuantileSearch({range_.first, 0.5, range_.second}));
}

std::unique_ptr<Tally> RobustScaler::start_tally() const {
  std::vector<QuantileTally> parts;
  for (const auto& search : search_->by_column) parts.emplace_back(search, search_->room);
  return std::make_unique<NumberTally<QuantileTally>>(columns_, std::move(parts));
}

bool RobustScaler::finish_tally(Tally& all) {
  auto& parts = static_cast<NumberTally<QuantileTally>&>(all).parts();
  bool done = true;
  for (size_t i = 0; i < parts.size(); ++i) {
    parts[i].finish(search_->by_column[i]);
    done = done && search_->by_column[i].is_done();
  }
  if (!done) return false;
  std::vector<double> low, median, high;
  for (const auto& search : search_->by_column) {
    const auto& found = search.found();
    require_range(low.size(), found[0], found[2]);
    low.push_back(found[0]);
    median.push_back(found[1]);
    high.push_back(found[2]);
  }
  set_learned(std::move(low), std::move(median), std::move(high));
  search_.reset();
  return true;
}

void RobustScaler::set_learned(std::vector<double> low, std::vector<double> median,
                               std::vector<double> high) {
  std::vector<Scale> scales;
  for (size_t i = 0; i < low.size(); ++i) {
    double distance = high[i] - low[i];
    scales.push_back({median[i], distance == 0 ? 1 : distance});
  }
  set({{"low_quantile", std::move(low)},
       {"median", std::move(median)},
       {"high_quantile", std::move(high)}},
      std::move(scales));
}

Json RobustScaler::state() const {
  Json state = ColumnScaler::state();
  state["quantile_range"] = {range_.first, range_.second};
  return state;
}

RobustScaler RobustScaler::from_state(const Json& state) {
  JsonFields fields(state, JsonDocument("it"));
  auto columns = internal::Columns::read("RobustScaler", fields);
  const Json& range = fields.array("quantile_range");
  if (range.size() != 2 || !range[0].is_number() || !range[1].is_number()) {
    fields.fail("quantile_range", "two numbers");
  }
  RobustScaler scaler(columns.inputs(),
                      {.quantile_range = {range[0].get<double>(), range[1].get<double>()},
                       .output_columns = columns.outputs()});
  if (!fields.has("median")) return scaler;
  fields.array("low_quantile");
  fields.array("high_quantile");
  auto low = scaler.read(fields, "low_quantile"), median = scaler.read(fields, "median"),
       high = scaler.read(fields, "high_quantile");
  for (size_t i = 0; i < low.size(); ++i) {
    if (!(low[i] <= median[i] && median[i] <= high[i] && std::isfinite(high[i] - low[i]))) {
      fields.fail("median",
                  "numbers between low_quantile and high_quantile, which are at finite "
                  "distances");
    }
  }
  scaler.set_learned(std::move(low), std::move(median), std::move(high));
  return scaler;
}

}  // namespace manta
