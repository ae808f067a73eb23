#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "manta/base/json.h"

namespace manta::tune {

/// A trial as searchers and schedulers see it. Valid during the call.
struct TrialInfo {
  uint64_t number = 0;  ///< 0, 1, ... in the order of suggestions.
  const Json& config;
};

/// What is searched for: the smallest or the largest value of a metric.
struct Objective {
  std::string metric = {};  ///< Empty: none was given.
  bool maximize = false;
};

/// The metric's number in a report; "eval/f1" is the field f1 of eval, unless there is a metric of
/// that name. Nothing if it is not there or is no number. NaN if it is null: JSON has no NaN.
std::optional<double> number_in(const Json& result, const std::string& metric);

}  // namespace manta::tune
