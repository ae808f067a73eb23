#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>

#include "manta/core/remote.h"
#include "manta/train/checkpoint_store_internal.h"
#include "manta/train/run_mirror_internal.h"
#include "manta/tune/report_server_internal.h"
#include "manta/tune/trainable.h"
#include "manta/tune/trials_internal.h"

namespace manta::tune {

/// Trials of a function: each is a task of core, in a process of the pool, on any node that has
/// room for it. A trial has a folder, on the driver's machine, only if it has checkpoints. A
/// mirror, if there is one, copies these to the store.
///
/// A trial that another driver started before may have a checkpoint in the store. A separate thread
/// fetches it, so that the other trials do not wait.
class FunctionTrials final : public Trials {
 public:
  /// The mirror, if there is one, must outlive this. Throws as ReportServer.
  FunctionTrials(Trainable trainable, std::string experiment_folder, std::string metric,
                 CheckpointConfig checkpoints, std::shared_ptr<EventQueue> events,
                 train::RunMirror* mirror = nullptr);
  ~FunctionTrials() override;

  std::vector<Resources> resources(const Assignment&) override { return {trainable_.resources()}; }
  void start(const Trial& trial) override;
  void judge(const Judge& judge) override;
  void interrupt(uint64_t trial) override;
  void release(uint64_t trial) override;
  Result result(const Trial& trial) override;

  /// Tells the mirror which checkpoints the folder has: it may be ahead of the store. Throws as
  /// train::CheckpointStore.
  void look_at_checkpoints();

 private:
  /// The checkpoints of a trial, here and in the store.
  struct Checkpoints {
    std::unique_ptr<train::CheckpointCopies> copies;  // null without a mirror
    train::CheckpointStore store;
  };
  struct Running {
    int attempt = 0;
    ObjectRef<TrialReturn> task;
    double seconds_before = 0;  // of earlier attempts
    Clock::time_point began;
    std::shared_ptr<Checkpoints> checkpoints = {};  // once there is one
    std::optional<int64_t> waits_for = {};          // the report whose verdict it waits for
    // The report of the checkpoint it goes on from, until that is on record; and the report that it
    // makes meanwhile.
    std::optional<int64_t> unrecorded = {};
    std::optional<SendTrialReport> held_back = {};
    bool interrupted = false;
  };

  std::string folder_of(uint64_t trial) const;
  std::optional<SendVerdict> on_report(uint64_t trial, int attempt, SendTrialReport& report);
  std::optional<SendVerdict> take_report(uint64_t trial, Running& running, SendTrialReport& report);
  /// Returns the report that is not on record yet, if there is one.
  std::optional<Reported> resume(const Trial& trial, Running& running, TrialCall& call,
                                 bool may_be_in_store);
  void launch(const Trial& trial, Running running, const TrialCall& call,
              const std::optional<Reported>& unrecorded);
  void start_on_a_thread(const Trial& trial, Running running, TrialCall call);
  std::shared_ptr<Checkpoints> open_checkpoints(uint64_t trial, bool is_new);
  Result stored_result(const Trial& trial, Result result);
  void commit(Running& running, uint64_t trial, const SendTrialReport& report);
  void on_task_done(uint64_t trial, int attempt);

  const Trainable trainable_;
  const std::string folder_, metric_;
  const CheckpointConfig checkpoints_;
  const std::shared_ptr<EventQueue> events_;
  train::RunMirror* const mirror_;

  // The task may end when this object has gone.
  struct Watch {
    std::mutex mutex;
    FunctionTrials* trials = nullptr;
  };
  const std::shared_ptr<Watch> watch_ = std::make_shared<Watch>();

  std::mutex mutex_;
  std::map<uint64_t, Running> running_;
  std::map<uint64_t, std::shared_ptr<Checkpoints>> known_;  // with a mirror: trials it knows
  std::set<uint64_t> interrupted_starts_;                   // trials that are not running yet
  bool ending_ = false;
  // Not guarded: only for the experiment's thread.
  std::set<uint64_t> begun_here_;  // trials that had nothing before
  std::map<uint64_t, std::thread> starting_;
  std::unique_ptr<ReportServer> server_;
};

}  // namespace manta::tune
