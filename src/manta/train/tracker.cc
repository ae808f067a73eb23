#include "manta/train/tracker.h"

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

#include "manta/base/batch_work_internal.h"
#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"

namespace manta {
namespace {

using internal::Clock;
using internal::Deadline;

constexpr size_t kLargestTrackerBatch = 1000;
// A thread that wakes for each of a thousand events a second would take a processor from the loops
// a thousand times.
constexpr std::chrono::milliseconds kBetweenBatches{200};
constexpr std::chrono::seconds kFirstPause{1}, kLongestPause{30};

double tracker_time() {
  return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count();
}

}  // namespace

class Tracker::Stream {
 public:
  Stream(std::string name, const TrackerOptions& options, std::chrono::milliseconds time_at_end,
         std::unique_ptr<TrackerSink> sink)
      : name_(std::move(name)),
        options_(options),
        time_at_end_(std::max(time_at_end, options.patience_at_end)),
        sink_(std::move(sink)) {
    thread_ = start_thread(str("the thread of ", name_), [this] { work(); });
  }

  ~Stream() {
    abandon();
    thread_.join();
  }

  void push(TrackerEvent event) {
    std::lock_guard lock(mutex_);
    if (auto* checkpoint = std::get_if<Checkpoint>(&event.what)) last_checkpoint_ = *checkpoint;
    if (auto* end = std::get_if<TrackerEvent::RunEnd>(&event.what)) {
      end->checkpoint = last_checkpoint_;
    } else if (queue_.size() >= options_.queue_size) {
      ++lost_;
      return;
    }
    queue_.push_back(std::move(event));
    if (waits_for_first_ || queue_.size() == enough()) changed_.notify_all();
  }

  // Waits until everything is taken, or the sink has failed for good.
  void finish() {
    Deadline patience = Deadline::after(options_.patience_at_end);
    Deadline longest = Deadline::after(time_at_end_);
    std::unique_lock lock(mutex_);
    ending_ = true;
    changed_.notify_all();
    changed_.wait_until(lock, patience.at(), [&] { return idle_; });
    given_up_ = true;  // at the next failure
    changed_.notify_all();
    changed_.wait_until(lock, longest.at(), [&] { return idle_ || failing_; });
    abandoned_ = true;
    size_t late = std::exchange(queue_, {}).size() + (idle_ ? 0 : in_hand_);
    lost_ += late;
    in_hand_ = 0;
    changed_.notify_all();
    if (lost_ == 0) return;
    std::string why = !last_error_.empty() ? "; the last error: " + last_error_
                      : late > 0
                          ? str("; it had not taken ", late, " of them when the run had waited ",
                                time_at_end_.count(), " ms for it at its end")
                          : ", because they came faster than it takes them";
    log_warning(str(name_, ": ", lost_, lost_ == 1 ? " event" : " events",
                    " of the run did not arrive", why));
  }

  void abandon() {
    std::lock_guard lock(mutex_);
    abandoned_ = true;
    changed_.notify_all();
  }

  size_t lost() const {
    std::lock_guard lock(mutex_);
    return lost_;
  }

  bool done() const {
    std::lock_guard lock(mutex_);
    return done_;
  }

 private:
  void work() {
    become_batch_work();
    std::chrono::milliseconds pause = kFirstPause;
    std::vector<TrackerEvent> batch;
    std::unique_lock lock(mutex_);
    while (true) {
      if (batch.empty()) {
        idle_ = ending_ && queue_.empty();
        if (idle_) changed_.notify_all();
        wait_for_events(lock);
        if (abandoned_ || (ending_ && queue_.empty())) break;
        size_t size = std::min(queue_.size(), kLargestTrackerBatch);
        std::move(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(size),
                  std::back_inserter(batch));
        queue_.erase(queue_.begin(), queue_.begin() + static_cast<ptrdiff_t>(size));
        in_hand_ = size;
      }
      lock.unlock();
      bool again = false;
      std::string error = take(batch, &again);
      lock.lock();
      if (abandoned_) break;
      failing_ = !error.empty();
      if (failing_) {
        last_error_ = error;
        warn_once(lock);
        if (!again) lost_ += batch.size();
      }
      if (!failing_ || !again) {
        batch.clear();
        in_hand_ = 0;
        pause = kFirstPause;
        failing_ = false;
        continue;
      }
      changed_.notify_all();
      if (given_up_) break;
      changed_.wait_for(lock, pause, [&] { return abandoned_ || given_up_; });
      if (abandoned_) break;
      pause = std::min<std::chrono::milliseconds>(2 * pause, kLongestPause);
    }
    idle_ = batch.empty() && queue_.empty();
    lock.unlock();
    sink_.reset();  // frees the sink now, however long this object is kept
    lock.lock();
    done_ = true;
    changed_.notify_all();
  }

  // An event after a pause is taken at once; events that follow each other are taken several at a
  // time.
  void wait_for_events(std::unique_lock<std::mutex>& lock) {
    waits_for_first_ = true;
    changed_.wait(lock, [&] { return abandoned_ || idle_ || !queue_.empty() || ending_; });
    waits_for_first_ = false;
    changed_.wait_until(lock, next_batch_.at(),
                        [&] { return abandoned_ || ending_ || queue_.size() >= enough(); });
    next_batch_ = Deadline::after(kBetweenBatches);
  }

  // With this many events the thread waits no longer: there must be room for those that come
  // meanwhile.
  size_t enough() const {
    return std::clamp<size_t>(options_.queue_size / 4, 1, kLargestTrackerBatch);
  }

  // Returns what went wrong, or nothing.
  std::string take(const std::vector<TrackerEvent>& batch, bool* again) {
    try {
      sink_->take(batch);
      return "";
    } catch (const Error& error) {
      *again = error.kind() == ErrorKind::kIo || error.kind() == ErrorKind::kTimeout;
      return error.what();
    } catch (const std::exception& error) {
      return error.what();
    } catch (...) {
      return "it threw something that is no std::exception";
    }
  }

  void warn_once(std::unique_lock<std::mutex>& lock) {
    if (std::exchange(warned_, true)) return;
    std::string message = str(name_, ": ", last_error_, "; the run goes on without it meanwhile");
    lock.unlock();
    log_warning(message);
    lock.lock();
  }

  const std::string name_;
  const TrackerOptions options_;
  const std::chrono::milliseconds time_at_end_;
  std::unique_ptr<TrackerSink> sink_;  // of the thread
  mutable std::mutex mutex_;           // guards what follows
  std::condition_variable changed_;
  std::deque<TrackerEvent> queue_;
  Checkpoint last_checkpoint_;
  size_t in_hand_ = 0;  // taken from the queue, but not yet by the sink
  size_t lost_ = 0;
  std::string last_error_;
  bool ending_ = false;     // no more events come
  bool idle_ = false;       // at the end: everything is taken
  bool failing_ = false;    // the last try failed
  bool given_up_ = false;   // the next failure is the last
  bool abandoned_ = false;  // the remaining events are dropped
  bool warned_ = false;
  bool waits_for_first_ = false;
  Deadline next_batch_ = Deadline::after({});  // earlier only if there are enough events
  bool done_ = false;                          // the thread has ended, or is about to
  std::thread thread_;
};

Tracker::Tracker(std::string name, const TrackerOptions& options,
                 std::chrono::milliseconds time_at_end)
    : name_(std::move(name)), options_(options), time_at_end_(time_at_end) {
  if (options.queue_size < 1)
    throw Error(ErrorKind::kInvalidArgument, str(name_, ": queue_size must be at least 1"));
  if (options.patience_at_end.count() < 0)
    throw Error(ErrorKind::kInvalidArgument,
                str(name_, ": patience_at_end must not be negative (was ",
                    options.patience_at_end.count(), " ms)"));
}

Tracker::~Tracker() {
  for (const auto& [path, stream] : streams_) stream->abandon();
  for (const auto& stream : ended_) stream->abandon();
}

std::shared_ptr<Tracker::Stream> Tracker::stream_of(const RunInfo& run) const {
  std::lock_guard lock(mutex_);
  auto found = streams_.find(run.path);
  return found == streams_.end() ? nullptr : found->second;
}

void Tracker::tell(const RunInfo& run, TrackerEvent event) {
  if (auto stream = stream_of(run)) stream->push(std::move(event));
}

void Tracker::on_run_start(const RunInfo& run) {
  auto stream = std::make_shared<Stream>(str(name_, " of run '", run.name, "'"), options_,
                                         time_at_end_, make_sink(run));
  stream->push({TrackerEvent::RunStart{run.name, run.path, run.train_loop_config,
                                       run.scaling_config, run.reports, tracker_time()}});
  std::lock_guard lock(mutex_);
  streams_[run.path] = std::move(stream);
}

void Tracker::on_epoch_start(const RunInfo& run, const EpochRecord& epoch) {
  tell(run, {TrackerEvent::EpochStart{epoch}});
}

void Tracker::on_epoch_end(const RunInfo& run, const EpochRecord& epoch) {
  tell(run, {TrackerEvent::EpochEnd{epoch}});
}

void Tracker::on_checkpoint(const RunInfo& run, const Checkpoint& checkpoint) {
  tell(run, {checkpoint});
}

Decision Tracker::on_report(const RunInfo& run, const ReportRecord& report) {
  tell(run, {report});
  return Decision::go_on();
}

void Tracker::on_failure(const RunInfo& run, const RunFailure& failure) { tell(run, {failure}); }

void Tracker::on_run_end(const RunInfo& run, RunOutcome outcome) {
  auto stream = stream_of(run);
  if (!stream) return;
  stream->push({TrackerEvent::RunEnd{outcome, {}, tracker_time()}});
  stream->finish();
  std::vector<std::shared_ptr<Stream>> gone;  // joined without the lock
  std::lock_guard lock(mutex_);
  streams_.erase(run.path);
  ended_.push_back(std::move(stream));
  auto rest =
      std::partition(ended_.begin(), ended_.end(), [](const auto& each) { return !each->done(); });
  for (auto it = rest; it != ended_.end(); ++it) {
    lost_ += (*it)->lost();
    gone.push_back(std::move(*it));
  }
  ended_.erase(rest, ended_.end());
}

size_t Tracker::lost() const {
  std::lock_guard lock(mutex_);
  size_t all = lost_;
  for (const auto& [path, stream] : streams_) all += stream->lost();
  for (const auto& stream : ended_) all += stream->lost();
  return all;
}

}  // namespace manta
