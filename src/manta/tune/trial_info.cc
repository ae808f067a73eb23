#include "manta/tune/trial_info.h"

#include <cmath>

namespace manta::tune {

std::optional<double> number_in(const Json& result, const std::string& metric) {
  if (!result.is_object()) return std::nullopt;
  auto found = result.find(metric);
  if (found == result.end()) {
    size_t slash = metric.find('/');
    if (slash == std::string::npos) return std::nullopt;
    auto outer = result.find(metric.substr(0, slash));
    return outer == result.end() ? std::nullopt : number_in(*outer, metric.substr(slash + 1));
  }
  if (found->is_null()) return std::nan("");
  if (found->is_boolean()) return found->get<bool>() ? 1 : 0;
  if (!found->is_number()) return std::nullopt;
  return found->get<double>();
}

}  // namespace manta::tune
