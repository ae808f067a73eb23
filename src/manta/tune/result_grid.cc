#include "manta/tune/result_grid.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/tune/trial_info.h"

namespace manta {
namespace {

// How many of the last reports a scope averages; 0: all of them.
std::optional<size_t> averaged(const std::string& scope) {
  if (scope == "avg") return 0;
  if (scope == "last-5-avg") return 5;
  if (scope == "last-10-avg") return 10;
  return std::nullopt;
}

// The value of a trial that counts; nothing if the trial has not reported the metric.
std::optional<double> value_of(const Result& result, const std::string& metric, bool maximize,
                               const std::string& scope) {
  std::vector<double> values;
  for (const Json& metrics : result.metrics_history) {
    if (auto value = tune::number_in(metrics, metric)) values.push_back(*value);
  }
  if (values.empty()) return std::nullopt;
  if (scope == "last") return tune::number_in(result.metrics_history.back(), metric);
  if (auto last = averaged(scope)) {
    size_t first = *last > 0 && values.size() > *last ? values.size() - *last : 0;
    double sum = 0;
    for (size_t i = first; i < values.size(); ++i) sum += values[i];
    return sum / static_cast<double>(values.size() - first);
  }
  std::erase_if(values, [](double value) { return std::isnan(value); });
  if (values.empty()) return std::nan("");
  return maximize ? *std::max_element(values.begin(), values.end())
                  : *std::min_element(values.begin(), values.end());
}

void add_names(const Json& metrics, const std::string& prefix, std::set<std::string>& names) {
  if (!metrics.is_object()) return;
  for (const auto& [name, value] : metrics.items()) {
    if (value.is_object()) {
      add_names(value, prefix + name + "/", names);
    } else {
      names.insert(prefix + name);
    }
  }
}

[[noreturn]] void fail_without(const std::string& metric, const ResultGrid& grid) {
  std::set<std::string> names;
  for (const Result& result : grid) {
    for (const Json& metrics : result.metrics_history) add_names(metrics, "", names);
  }
  std::string list;
  for (const std::string& name : names) list += str(list.empty() ? "" : ", ", name);
  std::string why = names.empty() ? str("none of the ", grid.size(), " trials reported anything")
                                  : str("reported were: ", list);
  auto errors = grid.errors();
  if (!errors.empty())
    why += str("; ", errors.size(), " of ", grid.size(),
               " failed, the first with: ", errors.front().what());
  throw Error(ErrorKind::kNotFound,
              str("no trial has reported a number as '", metric, "' that counts; ", why));
}

}  // namespace

size_t ResultGrid::num_errors() const {
  return static_cast<size_t>(std::count_if(results_.begin(), results_.end(),
                                           [](const Result& each) { return each.error; }));
}

size_t ResultGrid::num_terminated() const { return size() - num_errors(); }

std::vector<Error> ResultGrid::errors() const {
  std::vector<Error> errors;
  for (const Result& result : results_) {
    if (result.error) errors.push_back(*result.error);
  }
  return errors;
}

Result ResultGrid::get_best_result(const BestResultOptions& options) const {
  const std::string& metric = options.metric.empty() ? metric_ : options.metric;
  const std::string& mode = options.mode.empty() ? mode_ : options.mode;
  if (metric.empty() || mode.empty())
    throw Error(ErrorKind::kInvalidArgument,
                "get_best_result needs a metric and a mode: set them here, or in tune_config");
  if (mode != "min" && mode != "max")
    throw Error(ErrorKind::kInvalidArgument, str("mode must be min or max (was '", mode, "')"));
  if (options.scope != "last" && options.scope != "all" && !averaged(options.scope))
    throw Error(
        ErrorKind::kInvalidArgument,
        str("scope must be last, all, avg, last-5-avg or last-10-avg (was '", options.scope, "')"));
  bool maximize = mode == "max";
  const Result* best = nullptr;
  double best_value = 0;
  for (const Result& result : results_) {
    auto value = value_of(result, metric, maximize, options.scope);
    if (!value || (std::isnan(*value) && options.filter_nan)) continue;
    bool better = !best || (std::isnan(best_value) && !std::isnan(*value)) ||
                  (maximize ? *value > best_value : *value < best_value);
    if (!better) continue;
    best = &result;
    best_value = *value;
  }
  if (!best) fail_without(metric, *this);
  return *best;
}

}  // namespace manta
