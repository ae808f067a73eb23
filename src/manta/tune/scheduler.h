#pragma once

#include <functional>
#include <memory>
#include <string>
#include <utility>

#include "manta/base/json.h"
#include "manta/tune/trial_info.h"

namespace manta::tune {

/// How a trial goes on after a report.
enum class Verdict {
  kGoOn,
  kStop,  ///< It ends now, and is complete.
};

/// Decides which trials are worth continuing. A policy: it returns values and does nothing else.
/// When an experiment is restored, a new Scheduler is told everything that happened, in the same
/// order. Earlier decisions stand, whatever the new one returns.
class Scheduler {
 public:
  virtual ~Scheduler() = default;
  /// A trial has reported. `result` has its metrics, training_iteration (from 1) and time_total_s.
  virtual Verdict on_result(const TrialInfo& trial, const Json& result) = 0;
  /// A trial has ended by itself, without an error. `last_result` is null if it reported nothing.
  virtual void on_complete(const TrialInfo& trial, const Json& last_result) = 0;
};

/// Lets every trial run to its end. The default.
struct FIFOScheduler {};

/// Asynchronous successive halving (https://arxiv.org/abs/1810.05934): at grace_period,
/// grace_period * reduction_factor, ... reports, a trial stops unless it is among the best
/// 1/reduction_factor of those that have been there before. Needs TuneConfig::metric and mode.
///
/// It decides as Ray's class with one bracket does, except for two things. A NaN counts as the
/// worst value (in Ray such a trial is never stopped). A rung at max_t itself exists even if
/// rounding would hide it (max_t = 1000, reduction_factor = 10). As in Ray, a report enters one
/// rung, the highest that the trial has reached and not yet entered: a trial whose first report is
/// number 5 enters rung 3 and, with its next report, rung 1.
struct ASHAScheduler {
  /// What counts as time: a number in each report that grows. A report without it decides nothing.
  std::string time_attr = "training_iteration";
  double max_t = 100;           ///< A trial stops here.
  double grace_period = 1;      ///< No trial stops before.
  double reduction_factor = 4;  ///< Above 1.
};

/// FIFOScheduler, ASHAScheduler, or a Scheduler of your own. Each experiment gets a new one.
class AnyScheduler {
 public:
  using Make = std::function<std::unique_ptr<Scheduler>(const Objective&)>;

  AnyScheduler() : AnyScheduler(FIFOScheduler{}) {}
  AnyScheduler(FIFOScheduler options);  // NOLINT: it is one
  /// Throws Error(kInvalidArgument) if the options make no sense.
  AnyScheduler(const ASHAScheduler& options);  // NOLINT
  /// A scheduler of your own: its name for messages, and a function that makes one for each
  /// experiment.
  AnyScheduler(std::string name, Make make) : name_(std::move(name)), make_(std::move(make)) {}

  const std::string& name() const { return name_; }
  /// Throws Error(kInvalidArgument) if the scheduler needs a metric and there is none.
  std::unique_ptr<Scheduler> make(const Objective& objective) const { return make_(objective); }
  /// For files; null if it is one of your own, which is not stored.
  Json to_json() const { return json_; }
  static AnyScheduler from_json(const Json& json, const std::string& document);

 private:
  std::string name_;
  Make make_;
  Json json_;
};

}  // namespace manta::tune
