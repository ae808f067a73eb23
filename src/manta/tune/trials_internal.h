#pragma once

#include <memory>
#include <string>
#include <vector>

#include "manta/base/queue_internal.h"
#include "manta/train/config.h"
#include "manta/tune/controller_internal.h"

namespace manta::tune {

using EventQueue = Queue<Event>;

/// "trial_00003": the name of its folder in the experiment's folder.
std::string trial_name(uint64_t number);

/// Runs the trials of an experiment. Their events go to a queue, from any thread: reports, and one
/// TrialEnded for each start.
class Trials {
 public:
  virtual ~Trials() = default;  ///< Ends the running trials.
  /// What the processes of a trial would hold; nothing if a trial with these values is impossible:
  /// `start` then gives a better error.
  virtual std::vector<Resources> resources(const Assignment& assignment) = 0;
  /// Returns at once. If the trial has a checkpoint, it goes on from there. Throws Error if it
  /// cannot begin.
  virtual void start(const Trial& trial) = 0;
  /// Answers a report: the trial waits for it.
  virtual void judge(const Judge& judge) = 0;
  virtual void interrupt(uint64_t trial) = 0;
  /// Releases what a trial holds here, after its TrialEnded has come.
  virtual void release(uint64_t trial) = 0;
  /// The result of a trial that is done, without config and error.
  virtual Result result(const Trial& trial) = 0;
};

}  // namespace manta::tune
