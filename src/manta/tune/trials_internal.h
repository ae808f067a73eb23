#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/base/queue_internal.h"
#include "manta/train/config.h"
#include "manta/tune/controller_internal.h"

namespace manta::tune {

using EventQueue = Queue<Event>;

/// "trial_00003": the name of its folder in the experiment's.
std::string trial_name(uint64_t number);

/// How the trials of an experiment run. What happens to them goes to a queue, whatever thread it
/// happens on: reports, and one TrialEnded for each start.
class Trials {
 public:
  virtual ~Trials() = default;  ///< Ends those that run.
  /// What the processes of a trial would hold; nothing if it cannot be had for these values, which
  /// `start` says better.
  virtual std::vector<Resources> resources(const Assignment& assignment) = 0;
  /// Returns at once. If the trial has a checkpoint, it goes on from there. Throws Error if it
  /// cannot begin.
  virtual void start(const Trial& trial) = 0;
  /// Answers a report: the trial waits for it.
  virtual void judge(const Judge& judge) = 0;
  virtual void interrupt(uint64_t trial) = 0;
  /// Of a trial whose TrialEnded has come: lets go of what it held here.
  virtual void release(uint64_t trial) = 0;
  /// Of a trial that is done: all but config and error.
  virtual Result result(const Trial& trial) = 0;
};

}  // namespace manta::tune
