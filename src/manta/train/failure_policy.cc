#include "manta/train/controller_internal.h"

namespace manta::train {

FailureDecision decide(const FailureConfig& config, int failures_so_far, const Failure& failure) {
  bool again = config.max_failures < 0 || failures_so_far < config.max_failures;
  // A program that can never succeed would fail in the next attempt, too.
  bool hopeless = failure.fatal || failure.kind == ErrorKind::kInvalidArgument;
  return again && !hopeless ? FailureDecision::kRestart : FailureDecision::kRaise;
}

}  // namespace manta::train
