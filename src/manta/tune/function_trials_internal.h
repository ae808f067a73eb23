#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "manta/core/remote.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/tune/report_server_internal.h"
#include "manta/tune/trainable.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// Trials of a function: each is a task of core, in a process of the pool. A trial has a folder
/// only if it has checkpoints.
class FunctionTrials final : public Trials {
 public:
  /// Throws Error(kResources) if the machine can never hold one.
  FunctionTrials(Trainable trainable, std::string experiment_folder, std::string metric,
                 CheckpointConfig checkpoints, std::shared_ptr<EventQueue> events);
  ~FunctionTrials() override;

  std::vector<Resources> resources(const Assignment&) override { return {trainable_.resources()}; }
  void start(const Trial& trial) override;
  void judge(const Judge& judge) override;
  void interrupt(uint64_t trial) override;
  void release(uint64_t) override {}  // its task has ended
  Result result(const Trial& trial) override;

 private:
  struct Running {
    int attempt = 0;
    ObjectRef<TrialReturn> task;
    double seconds_before = 0;  // of earlier attempts
    Clock::time_point began;
    std::unique_ptr<train::CheckpointStore> store = {};  // once there is a checkpoint
    std::optional<int64_t> waits_for = {};               // the report whose verdict it waits for
    // That of the checkpoint it goes on from, until it is on record; what it reports meanwhile.
    std::optional<int64_t> unrecorded = {};
    std::optional<SendTrialReport> held_back = {};
    bool interrupted = false;
  };

  std::string folder_of(uint64_t trial) const;
  std::optional<SendVerdict> on_report(uint64_t trial, int attempt, SendTrialReport& report);
  std::optional<SendVerdict> take_report(uint64_t trial, Running& running, SendTrialReport& report);
  void resume(const Trial& trial, Running& running, TrialCall& call);
  void commit(Running& running, uint64_t trial, const SendTrialReport& report);
  void on_task_done(uint64_t trial, int attempt);

  const Trainable trainable_;
  const std::string folder_, metric_;
  const CheckpointConfig checkpoints_;
  const std::shared_ptr<EventQueue> events_;

  // The task's end may be heard of when this has gone.
  struct Watch {
    std::mutex mutex;
    FunctionTrials* trials = nullptr;
  };
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  std::mutex mutex_;
  std::map<uint64_t, Running> running_;
  std::unique_ptr<ReportServer> server_;
};

}  // namespace manta::tune
