#include "manta/train/metric.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "manta/base/error_internal.h"
#include "manta/train/metric_internal.h"

namespace manta::train {
namespace {

constexpr const char* kMetricType = "_type";
constexpr int kMostBuckets = 1000;

template <class T>
Json make_histogram(const std::vector<T>& values, int buckets) {
  if (buckets < 1 || buckets > kMostBuckets) {
    throw Error(ErrorKind::kInvalidArgument, str("train::histogram: `buckets` is ", buckets,
                                                 "; it must be 1 to ", kMostBuckets));
  }
  double least = 0, greatest = 0, sum = 0, squares = 0;
  int64_t count = 0;
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    least = count == 0 ? value : std::min(least, value);
    greatest = count == 0 ? value : std::max(greatest, value);
    sum += value;
    squares += value * value;
    ++count;
  }
  // Halves each, because the whole width may be more than a double holds.
  double half_width = greatest / 2 - least / 2;
  int parts = half_width > 0 ? buckets : 1;
  std::vector<double> limits(static_cast<size_t>(parts), greatest);
  for (int i = 0; i + 1 < parts; ++i)
    limits[static_cast<size_t>(i)] = least + 2 * (half_width * ((i + 1.0) / parts));
  std::vector<int64_t> counts(static_cast<size_t>(parts));
  for (double value : values) {
    if (!std::isfinite(value)) continue;
    double place = parts == 1 ? 0 : (value / 2 - least / 2) / half_width * parts;
    ++counts[static_cast<size_t>(std::clamp(place, 0.0, parts - 1.0))];
  }
  return {{kMetricType, "histogram"},
          {"min", least},
          {"max", greatest},
          {"sum", sum},
          {"sum_of_squares", squares},
          {"count", count},
          {"limits", limits},
          {"counts", counts},
          {"not_finite", static_cast<int64_t>(values.size()) - count}};
}

bool has_type(const Json& metric, const char* type) {
  if (!metric.is_object()) return false;
  auto found = metric.find(kMetricType);
  return found != metric.end() && *found == type;
}

void visit_metrics(const Json& metrics, const std::string& prefix,
                   const std::function<void(const std::string&, const Json&)>& each) {
  for (const auto& [key, value] : metrics.items()) {
    bool is_one = has_type(value, "histogram") || has_type(value, "text");
    if (value.is_object() && !is_one) {
      visit_metrics(value, prefix + key + "/", each);
    } else if (!value.is_array()) {
      each(prefix + key, value);
    }
  }
}

void flatten_config(const Json& config, const std::string& name, std::map<std::string, Json>& all) {
  if (!config.is_structured() || (config.empty() && !name.empty())) {
    if (!name.empty()) all[name] = config;
    return;
  }
  for (const auto& [key, value] : config.items())
    flatten_config(value, name.empty() ? key : name + "/" + key, all);
}

}  // namespace

Json histogram(const std::vector<double>& values, int buckets) {
  return make_histogram(values, buckets);
}
Json histogram(const std::vector<float>& values, int buckets) {
  return make_histogram(values, buckets);
}

Json text(const std::string& words) { return {{kMetricType, "text"}, {"text", words}}; }

std::optional<Histogram> histogram_of(const Json& metric) {
  if (!has_type(metric, "histogram")) return std::nullopt;
  auto number = [&](const char* key) {
    auto found = metric.find(key);
    return found != metric.end() && found->is_number() ? found->get<double>() : std::nan("");
  };
  Histogram result{
      number("min"), number("max"), number("sum"), number("sum_of_squares"), 0, {}, {}};
  for (const Json& limit : metric.value("limits", Json::array()))
    result.limits.push_back(limit.is_number() ? limit.get<double>() : std::nan(""));
  for (const Json& count : metric.value("counts", Json::array())) {
    result.counts.push_back(count.is_number() ? count.get<int64_t>() : 0);
    result.count += result.counts.back();
  }
  if (result.limits.size() != result.counts.size()) return std::nullopt;
  return result;
}

std::optional<std::string> text_of(const Json& metric) {
  if (!has_type(metric, "text")) return std::nullopt;
  auto found = metric.find("text");
  if (found == metric.end() || !found->is_string()) return std::nullopt;
  return found->get<std::string>();
}

void for_each_metric(const Json& metrics,
                     const std::function<void(const std::string& name, const Json& metric)>& each) {
  if (metrics.is_object()) visit_metrics(metrics, "", each);
}

std::optional<double> number_of(const Json& metric) {
  if (metric.is_boolean()) return metric.get<bool>() ? 1 : 0;
  if (metric.is_null()) return std::numeric_limits<double>::quiet_NaN();
  if (metric.is_number()) return metric.get<double>();
  return std::nullopt;
}

std::map<std::string, Json> flat_config(const Json& config) {
  std::map<std::string, Json> all;
  flatten_config(config, "", all);
  return all;
}

}  // namespace manta::train
