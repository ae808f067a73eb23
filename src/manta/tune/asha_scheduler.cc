#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/tune/scheduler.h"

namespace manta::tune {
namespace {

const char kAsha[] = "ASHAScheduler";
constexpr double kRounding = 1e-9;

struct Rung {
  double milestone = 0;
  std::vector<double> values = {};  // the sorted values of trials that have reached the rung
  std::set<uint64_t> trials = {};
};

// Below this value a trial is not among the best 1/reduction_factor: numpy's percentile, with its
// rounding.
double cutoff(const Rung& rung, double reduction_factor) {
  double share = (1 - 1 / reduction_factor) * 100 / 100;
  double place = static_cast<double>(rung.values.size() - 1) * share;
  auto below = static_cast<size_t>(std::floor(place));
  size_t above = std::min(below + 1, rung.values.size() - 1);
  double low = rung.values[below], high = rung.values[above], part = place - std::floor(place);
  if (std::isinf(low)) return low;
  return part < 0.5 ? low + (high - low) * part : high - (high - low) * (1 - part);
}

class Asha final : public Scheduler {
 public:
  Asha(ASHAScheduler options, Objective objective)
      : options_(std::move(options)), objective_(std::move(objective)) {
    for (int power = 0;; ++power) {
      double milestone = options_.grace_period * std::pow(options_.reduction_factor, power);
      if (milestone > options_.max_t * (1 + kRounding)) break;
      rungs_.insert(rungs_.begin(), Rung{milestone});
    }
  }

  Verdict on_result(const TrialInfo& trial, const Json& result) override {
    auto [time, value] = read(result);
    if (!time || !value) return Verdict::kGoOn;
    if (*time >= options_.max_t) return Verdict::kStop;
    return enter(trial.number, *time, *value);
  }

  void on_complete(const TrialInfo& trial, const Json& last_result) override {
    auto [time, value] = read(last_result);
    if (time && value) enter(trial.number, *time, *value);
  }

 private:
  // The time, and the value with a sign such that more is better.
  std::pair<std::optional<double>, std::optional<double>> read(const Json& result) const {
    auto value = number_in(result, objective_.metric);
    if (value && std::isnan(*value)) {
      value = -std::numeric_limits<double>::infinity();
    } else if (value && !objective_.maximize) {
      value = -*value;
    }
    return {number_in(result, options_.time_attr), value};
  }

  Verdict enter(uint64_t trial, double time, double value) {
    for (Rung& rung : rungs_) {  // the highest comes first
      if (time < rung.milestone || rung.trials.contains(trial)) continue;
      bool stop = !rung.values.empty() && value < cutoff(rung, options_.reduction_factor);
      rung.values.insert(std::upper_bound(rung.values.begin(), rung.values.end(), value), value);
      rung.trials.insert(trial);
      return stop ? Verdict::kStop : Verdict::kGoOn;
    }
    return Verdict::kGoOn;
  }

  const ASHAScheduler options_;
  const Objective objective_;
  std::vector<Rung> rungs_;
};

void check_options(const ASHAScheduler& options) {
  auto refuse = [](const char* field, const char* rule, double was) {
    throw Error(ErrorKind::kInvalidArgument,
                str("ASHAScheduler.", field, " must be ", rule, " (was ", was, ")"));
  };
  if (!(options.grace_period > 0)) refuse("grace_period", "above 0", options.grace_period);
  if (!(options.max_t >= options.grace_period) || !std::isfinite(options.max_t))
    refuse("max_t", "at least grace_period", options.max_t);
  if (!(options.reduction_factor > 1) || !std::isfinite(options.reduction_factor))
    refuse("reduction_factor", "above 1", options.reduction_factor);
  if (std::log(options.max_t / options.grace_period) / std::log(options.reduction_factor) > 1000)
    refuse("reduction_factor", "so large that there are at most 1000 rungs",
           options.reduction_factor);
  if (options.time_attr.empty())
    throw Error(ErrorKind::kInvalidArgument,
                "ASHAScheduler.time_attr must be the name of a metric");
}

}  // namespace

AnyScheduler::AnyScheduler(const ASHAScheduler& options)
    : name_(kAsha),
      make_([options](const Objective& objective) {
        if (objective.metric.empty())
          throw Error(ErrorKind::kInvalidArgument,
                      "ASHAScheduler needs to know what is better: set tune_config.metric and "
                      "tune_config.mode");
        return std::make_unique<Asha>(options, objective);
      }),
      json_({{"name", kAsha},
             {"time_attr", options.time_attr},
             {"max_t", options.max_t},
             {"grace_period", options.grace_period},
             {"reduction_factor", options.reduction_factor}}) {
  check_options(options);
}

AnyScheduler AnyScheduler::from_json(const Json& json, const std::string& document) {
  JsonFields fields(json, document, "scheduler.");
  if (fields.text("name") == "FIFOScheduler") return FIFOScheduler{};
  if (fields.text("name") != kAsha) fields.fail("name", "a scheduler's name");
  constexpr double kMost = 1e300;
  ASHAScheduler options{fields.text("time_attr"), fields.number("max_t", 0, kMost),
                        fields.number("grace_period", 0, kMost),
                        fields.number("reduction_factor", 1, kMost)};
  try {
    return options;
  } catch (const Error& error) {
    throw Error(ErrorKind::kCorrupt, str(document, " is damaged: ", error.what()));
  }
}

}  // namespace manta::tune
