#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/json.h"

namespace manta::train {

/// What train::histogram made.
struct Histogram {
  double min = 0, max = 0, sum = 0, sum_of_squares = 0;
  int64_t count = 0;
  std::vector<double> limits;  ///< The upper end of each bucket.
  std::vector<int64_t> counts;
};
/// Nothing if it is none.
std::optional<Histogram> histogram_of(const Json& metric);
/// The words of train::text; nothing if it is none.
std::optional<std::string> text_of(const Json& metric);

/// Calls `each` for every metric: those inside objects as "outer/inner", histograms and texts as
/// one, arrays not at all.
void for_each_metric(const Json& metrics,
                     const std::function<void(const std::string& name, const Json& metric)>& each);

/// The number that it is, true as 1; nothing if it is none. null is NaN: files keep NaN so.
std::optional<double> number_of(const Json& metric);

/// A configuration as names and values: "optimizer/lr" -> 0.1, "layers/0" -> 64.
std::map<std::string, Json> flat_config(const Json& config);

}  // namespace manta::train
