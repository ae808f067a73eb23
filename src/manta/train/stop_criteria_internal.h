#pragma once

#include <string>

#include "manta/base/json_input_internal.h"
#include "manta/train/callback.h"

namespace manta::train {

/// Throws Error(kInvalidArgument) if they make no sense: negative, or NaN.
void check_stop_criteria(const StopCriteria& stop);

Json stop_criteria_to_json(const StopCriteria& stop);
/// Throws an error of the document's kind.
StopCriteria stop_criteria_from_json(const JsonFields& json);

/// Whether this report makes the run complete. It does not check the time, which passes without
/// reports, too.
bool is_complete(const StopCriteria& stop, const ReportRecord& report);

/// Stops a run by its StopCriteria.
class StopAtCriteria final : public Callback {
 public:
  explicit StopAtCriteria(StopCriteria stop) : stop_(std::move(stop)) {}
  Decision on_report(const RunInfo&, const ReportRecord& report) override {
    return is_complete(stop_, report) ? Decision::stop() : Decision::go_on();
  }

 private:
  const StopCriteria stop_;
};

}  // namespace manta::train
