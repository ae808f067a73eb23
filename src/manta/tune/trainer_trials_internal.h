#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "manta/train/base_trainer.h"
#include "manta/train/training_internal.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// A trainer with the values of an assignment, and a run_config, in the place of its own.
using MakeTrainer = std::function<std::shared_ptr<const BaseTrainer>(const Assignment& assignment,
                                                                     const RunConfig& run)>;

/// Trials of a trainer: each is a run of its own, with a thread in the driver, and a run folder in
/// the experiment's. Their reports are decided by the experiment's controller.
class TrainerTrials final : public Trials {
 public:
  TrainerTrials(MakeTrainer make, std::string experiment_folder, RunConfig run,
                std::shared_ptr<EventQueue> events);
  ~TrainerTrials() override;

  std::vector<Resources> resources(const Assignment& assignment) override;
  void start(const Trial& trial) override;
  void judge(const Judge& judge) override;
  void interrupt(uint64_t trial) override;
  void release(uint64_t trial) override;
  Result result(const Trial& trial) override;

 private:
  class Running;

  train::Training training(const Trial& trial) const;

  const MakeTrainer make_;
  const std::string folder_;
  const RunConfig run_;
  const std::shared_ptr<EventQueue> events_;
  std::map<uint64_t, std::unique_ptr<Running>> running_;
};

/// What the trials' runs are configured with: the Tuner's run_config, and in the place of what it
/// leaves at its default, the trainer's own.
RunConfig run_config_of_trials(const RunConfig& tuner, const RunConfig& trainer);

}  // namespace manta::tune
