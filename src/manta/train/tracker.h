#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <variant>
#include <vector>

#include "manta/train/callback.h"

namespace manta {

/// An event that a tracker gets, as a copy: the run may have gone on since.
struct TrackerEvent {
  struct RunStart {
    std::string name;
    std::string path;  ///< The run folder.
    Json train_loop_config;
    ScalingConfig scaling_config;
    std::vector<ReportRecord> reports;  ///< Of before, if the run was restored.
    double time = 0;                    ///< Seconds since 1970.
  };
  struct EpochStart {
    EpochRecord epoch;
  };
  struct EpochEnd {
    EpochRecord epoch;
  };
  struct RunEnd {
    RunOutcome outcome = RunOutcome::kFinished;
    Checkpoint checkpoint;  ///< The last that was committed while the tracker listened.
    double time = 0;
  };
  std::variant<RunStart, EpochStart, EpochEnd, Checkpoint, ReportRecord, RunFailure, RunEnd> what;
};

/// The place to which a tracker sends events: a file, a server. One for each run; only the
/// tracker's thread calls it. The first event is RunStart, the last RunEnd.
class TrackerSink {
 public:
  virtual ~TrackerSink() = default;
  /// Takes all of the events, or throws. After Error(kIo) or Error(kTimeout) the same events come
  /// again, after a pause; after any other exception they are lost. Must return even if the server
  /// or disk hangs.
  virtual void take(const std::vector<TrackerEvent>& events) = 0;
};

struct TrackerOptions {
  /// How many events may wait. Events that come while the queue is full are dropped, and counted.
  size_t queue_size = 10'000;
  /// How long the end of the run waits for what is still in the queue.
  std::chrono::milliseconds patience_at_end = std::chrono::seconds(10);
};

/// A callback that passes on what happens in a run, to a file or a server, without holding up the
/// run. The run only puts each event into a queue, and a thread for each run gives them to the
/// sink. The first event after a pause goes at once; then all events of 0.2 s go together, or as
/// many as fill a quarter of the queue. If the sink fails, there is one warning, the run continues,
/// and the sink is tried again: at first after 1 s, later every 30 s. A second warning at the end
/// says how many events were lost. One object may watch several runs at once, such as the trials of
/// a Tuner.
class Tracker : public Callback {
 public:
  /// Waits until the sinks have returned from their current call, and drops the remaining events.
  ~Tracker() override;

  void on_run_start(const RunInfo& run) final;
  void on_epoch_start(const RunInfo& run, const EpochRecord& epoch) final;
  void on_epoch_end(const RunInfo& run, const EpochRecord& epoch) final;
  void on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint) final;
  Decision on_report(const RunInfo& run, const ReportRecord& report) final;
  void on_failure(const RunInfo& run, const RunFailure& failure) final;
  /// Waits until the sink has all events; see TrackerOptions::patience_at_end.
  void on_run_end(const RunInfo& run, RunOutcome outcome) final;

  /// The number of events of all runs so far that the sinks never took.
  size_t lost() const;

 protected:
  /// Throws Error(kInvalidArgument) if the options make no sense. `name` is for messages. After the
  /// run has ended, a sink that does not fail may take `time_at_end`, if that is longer than the
  /// patience: for slow work such as an upload.
  Tracker(std::string name, const TrackerOptions& options,
          std::chrono::milliseconds time_at_end = {});
  /// Makes the sink of a run. An exception ends the run before it begins: only for options that
  /// make no sense. Nothing that may fail for other reasons, or take time, belongs here.
  virtual std::unique_ptr<TrackerSink> make_sink(const RunInfo& run) = 0;

 private:
  class Stream;  // one run's queue and thread
  std::shared_ptr<Stream> stream_of(const RunInfo& run) const;
  void tell(const RunInfo& run, TrackerEvent event);

  const std::string name_;
  const TrackerOptions options_;
  const std::chrono::milliseconds time_at_end_;
  mutable std::mutex mutex_;                                // guards what follows
  std::map<std::string, std::shared_ptr<Stream>> streams_;  // by run folder
  std::vector<std::shared_ptr<Stream>> ended_;              // whose sinks had not, at last sight
  size_t lost_ = 0;                                         // of streams that are gone
};

}  // namespace manta
