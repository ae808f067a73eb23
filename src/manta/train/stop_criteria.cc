#include <cmath>

#include "manta/base/error_internal.h"
#include "manta/train/metric_internal.h"
#include "manta/train/stop_criteria_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

std::map<std::string, double> thresholds_from(const JsonFields& json) {
  std::map<std::string, double> all;
  for (const auto& [name, value] : json.json().items())
    all[name] = json.number(name, std::numeric_limits<double>::lowest(),
                            std::numeric_limits<double>::max());
  return all;
}

}  // namespace

void check_stop_criteria(const StopCriteria& stop) {
  if (stop.iterations < 0)
    throw Error(
        ErrorKind::kInvalidArgument,
        str("run_config.stop.iterations must be 0 (no limit) or more (was ", stop.iterations, ")"));
  if (stop.time.count() < 0 || stop.time > kLongestTimeout)
    throw Error(ErrorKind::kInvalidArgument,
                str("run_config.stop.time must be from 0 (no limit) to ten years (was ",
                    stop.time.count(), " ms)"));
  for (const auto* thresholds : {&stop.at_least, &stop.at_most}) {
    for (const auto& [name, value] : *thresholds) {
      if (!std::isfinite(value))
        throw Error(ErrorKind::kInvalidArgument, str("run_config.stop: the value of '", name,
                                                     "' must be a number (was ", value, ")"));
    }
  }
}

Json stop_criteria_to_json(const StopCriteria& stop) {
  return {{"at_least", stop.at_least},
          {"at_most", stop.at_most},
          {"iterations", stop.iterations},
          {"time_ms", stop.time.count()}};
}

StopCriteria stop_criteria_from_json(const JsonFields& json) {
  StopCriteria stop;
  stop.at_least = thresholds_from(json.object("at_least"));
  stop.at_most = thresholds_from(json.object("at_most"));
  stop.iterations = json.integer("iterations", 0, INT64_MAX);
  stop.time = std::chrono::milliseconds(json.integer("time_ms", 0, kLongestTimeout.count()));
  return stop;
}

bool is_complete(const StopCriteria& stop, const ReportRecord& report) {
  if (stop.iterations > 0 && report.index + 1 >= stop.iterations) return true;
  if (stop.at_least.empty() && stop.at_most.empty()) return false;
  bool complete = false;
  for_each_metric(report.metrics, [&](const std::string& name, const Json& metric) {
    auto number = number_of(metric);
    if (!number) return;
    auto least = stop.at_least.find(name), most = stop.at_most.find(name);
    complete = complete || (least != stop.at_least.end() && *number >= least->second) ||
               (most != stop.at_most.end() && *number <= most->second);
  });
  return complete;
}

}  // namespace manta::train
