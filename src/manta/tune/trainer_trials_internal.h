#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "manta/train/base_trainer.h"
#include "manta/train/run_mirror_internal.h"
#include "manta/train/training_internal.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// Makes a trainer with the values of an assignment and with a run_config, which replace the
/// trainer's own.
using MakeTrainer = std::function<std::shared_ptr<const BaseTrainer>(const Assignment& assignment,
                                                                     const RunConfig& run)>;

/// Trials of a trainer: each is a separate run, with a thread in the driver, and with a run folder
/// in the experiment's folder, or an address below the experiment's address. The experiment's
/// controller decides about their reports.
///
/// With an address, a run is made there only once the store has the line of the experiment's
/// journal that says that the trial has started. So a driver that restores the experiment knows of
/// every run, and a superseded driver makes none. The trial's thread waits for that, for at most
/// RunConfig::storage_timeout; then the trial has failed.
class TrainerTrials final : public Trials {
 public:
  /// `place` is the experiment's folder, or its address; then there is a mirror, which must outlive
  /// this.
  TrainerTrials(MakeTrainer make, std::string place, RunConfig run,
                std::shared_ptr<EventQueue> events, train::RunMirror* mirror = nullptr);
  ~TrainerTrials() override;

  std::vector<Resources> resources(const Assignment& assignment) override;
  void start(const Trial& trial) override;
  void judge(const Judge& judge) override;
  void interrupt(uint64_t trial) override;
  void release(uint64_t trial) override;
  Result result(const Trial& trial) override;

 private:
  class Running;

  std::string path_of(const Trial& trial) const;
  train::Training training(const Trial& trial) const;

  const MakeTrainer make_;
  const std::string place_;
  const RunConfig run_;
  const std::shared_ptr<EventQueue> events_;
  train::RunMirror* const mirror_;
  std::map<uint64_t, std::unique_ptr<Running>> running_;
  std::map<uint64_t, Result> results_;  // only with a mirror: results of trials that ended here
};

/// The configuration of the trials' runs: the Tuner's run_config, with the trainer's values for
/// fields that the Tuner leaves at their defaults.
RunConfig run_config_of_trials(const RunConfig& tuner, const RunConfig& trainer);

}  // namespace manta::tune
