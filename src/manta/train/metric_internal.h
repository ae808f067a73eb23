#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json.h"

namespace manta::train {

/// The histogram that train::histogram made.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  int64_t count = 0;
  std::vector<double> limits;  ///< The upper end of each bucket.
  std::vector<int64_t> counts;
};
/// The histogram in a metric; nothing if it is not one.
std::optional<Histogram> histogram_of(const Json& metric);
/// The text that train::text made; nothing if it is not one.
std::optional<std::string> text_of(const Json& metric);

/// Calls `each` for every metric: metrics inside objects as "outer/inner", histograms and texts as
/// one metric, arrays not at all.
void for_each_metric(const Json& metrics,
                     const std::function<void(const std::string& name, const Json& metric)>& each);

/// The metric as a number, with true as 1; nothing if it is not a number. null is NaN: files store
/// NaN as null.
std::optional<double> number_of(const Json& metric);

/// A configuration as names and values: "optimizer/lr" -> 0.1, "layers/0" -> 64.
std::map<std::string, Json> flat_config(const Json& config);

}  // namespace manta::train
