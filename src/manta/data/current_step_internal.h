#pragma once

#include <mutex>
#include <optional>
#include <utility>
#include <vector>

#include "manta/data/step_internal.h"

namespace manta::data {

/// A step, and the part of it that this worker has taken. slice_of(step, ...) gives the parts of
/// the others.
struct StepTaken {
  Rows step;
  Rows mine;
  bool operator==(const StepTaken&) const = default;
};

/// The current step of this process's training loop. Loops over data may be nested, e.g. a loop
/// over a validation set inside an epoch: the loop that counts is the one that took a batch last
/// and is not over. Any thread may use it.
class CurrentStep {
 public:
  /// `loop` tells the loops apart.
  void set(const void* loop, const StepTaken& step);
  /// Call it when the loop is over.
  void forget(const void* loop);
  /// Nothing if no loop is under way.
  std::optional<StepTaken> get() const;

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<const void*, StepTaken>> loops_;  // the loop that took a batch last is last
};

}  // namespace manta::data
