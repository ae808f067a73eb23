#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "manta/train/callback.h"

namespace manta::train {

/// Several callbacks as one. If one throws, the others are called nevertheless; then the first
/// error is thrown, as an Error that names the callback and the function.
class Callbacks {
 public:
  explicit Callbacks(std::vector<std::shared_ptr<Callback>> callbacks)
      : callbacks_(std::move(callbacks)) {}

  void on_run_start(const RunInfo& run) const;
  void on_epoch_start(const RunInfo& run, const EpochRecord& epoch) const;
  void on_epoch_end(const RunInfo& run, const EpochRecord& epoch) const;
  void on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint) const;
  Decision on_report(const RunInfo& run, const ReportRecord& report) const;
  void on_failure(const RunInfo& run, const RunFailure& failure) const;
  void on_run_end(const RunInfo& run, RunOutcome outcome) const;

 private:
  void for_each(const char* function, const std::function<void(Callback&)>& call) const;

  std::vector<std::shared_ptr<Callback>> callbacks_;
};

}  // namespace manta::train
