// A worker's messages from the driver, and those that it sends unasked.

#include <algorithm>

#include "manta/base/batch_work_internal.h"
#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/train/session_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProgressInterval{200};
// How often the receiving thread checks the loop, and after which time the driver is told of a
// wait: most waits are far shorter.
constexpr milliseconds kLookInterval{100};
constexpr milliseconds kLongWait{300};

}  // namespace

void Session::receive() {
  become_batch_work();
  auto next_progress = Clock::now() + kProgressInterval;
  try {
    while (true) {
      {
        std::lock_guard lock(mutex_);
        if (closing_) return;
      }
      channel_->try_send([](OutBuffer&) {});  // sends what an earlier call has left
      answer_ask();
      tell_writing();
      tell_activity();
      if (begin_.rank == 0 && Clock::now() >= next_progress) {
        send_progress();
        next_progress = Clock::now() + kProgressInterval;
      }
      if (!receive_one()) break;
    }
  } catch (const std::exception& error) {
    std::lock_guard lock(mutex_);
    if (!closing_) log_error(str("rank ", begin_.rank, " has lost the driver: ", error.what()));
  }
  std::lock_guard lock(mutex_);
  driver_gone_ = true;
  changed_.notify_all();
}

// False when the driver has closed the connection.
bool Session::receive_one() {
  Frame frame;
  try {
    if (!channel_->receive(&frame, Deadline::after(kLookInterval))) return false;
  } catch (const Error& error) {
    if (error.kind() == ErrorKind::kTimeout) return true;
    throw;
  }
  auto message = decode_message<ToMember>(frame);
  std::lock_guard lock(mutex_);
  if (auto* acknowledged = std::get_if<Acknowledged>(&message)) {
    (acknowledged->committed ? committed_ : gathered_) = acknowledged->index;
  } else if (auto* reply = std::get_if<StoreReply>(&message)) {
    replies_[reply->request] = std::move(*reply);
  } else if (std::holds_alternative<ChunkTaken>(message)) {
    --chunks_in_flight_;
    ++parts_written_;
  } else if (std::holds_alternative<Writing>(message)) {
    ++writes_;
  } else if (std::holds_alternative<WantAsks>(message) && !std::exchange(stop_wanted_, true)) {
    answer_ = SendAsks{asks_};
  } else if (auto* stop = std::get_if<StopFrom>(&message)) {
    stop_from_ = stop->ask;
  }
  changed_.notify_all();
  return true;
}

void Session::answer_ask() {
  std::unique_lock lock(mutex_);
  if (!answer_) return;
  SendAsks answer = *answer_;
  lock.unlock();
  if (!try_send(answer)) return;
  lock.lock();
  answer_.reset();
}

void Session::tell_writing() {
  int64_t parts = parts_written_;
  if (parts > told_of_parts_ && try_send(SendWriting{})) told_of_parts_ = parts;
}

Activity Session::activity(const Wait& wait) const {
  Activity activity{wait.kind, wait.number, {}, watch_.collectives(), watch_.passes(), {}};
  if (wait.kind == Wait::kCollective) {
    bool vowel = std::string_view("aeiou").find(wait.what[0]) != std::string_view::npos;
    activity.what = str("in ", vowel ? "an " : "a ", wait.what);
    if (wait.step >= 0) activity.what += str(" (of step ", wait.step, ")");
  } else if (wait.kind == Wait::kRows) {
    activity.what = str("for rows of epoch ", wait.step, " of data set '", wait.what, "'");
  } else if (wait.kind == Wait::kReport) {
    activity.what = str("in train::report for report ", wait.number);
  }
  std::lock_guard lock(mutex_);
  for (const auto& [name, shard] : shards_) {
    if (int64_t pass = shard->pass; pass >= 0) activity.taken[pass] = shard->pass_steps;
  }
  return activity;
}

// The driver is told once of each wait that lasts, so that it can see when ranks wait for each
// other. The end of a wait need not be reported: see find_standstill.
void Session::tell_activity() {
  auto seen = watch_.read();
  if (seen.version != seen_version_) {
    seen_version_ = seen.version;
    seen_since_ = Clock::now();
    told_ = false;
    return;
  }
  if (told_ || seen.wait.kind == Wait::kNone || Clock::now() - seen_since_ < kLongWait) return;
  SendActivity message{activity(seen.wait)};
  if (watch_.read().version != seen.version) return;  // its fields may come from two moments
  told_ = try_send(message);
}

std::optional<Activity> Session::thrown_from() const {
  Wait wait = watch_.thrown_from();
  if (wait.kind == Wait::kNone) wait = watch_.read().wait;  // a wait without a scope
  if (wait.kind == Wait::kNone || watch_.others_take_part()) return std::nullopt;
  return activity(wait);
}

int64_t Session::step() const {
  if (watch_.others_take_part()) return -1;
  std::lock_guard lock(mutex_);
  int64_t sum = 0;
  for (const auto& [name, shard] : shards_) {
    if (shard->pass >= 0) sum += shard->pass_steps;
  }
  return sum;
}

void Session::send_progress() {
  SendProgress progress;
  std::unique_lock lock(mutex_);
  for (const auto& [name, shard] : shards_) {
    if (shard->steps == 0 || (progress.steps > 0 && shard->steps <= progress.steps)) continue;
    progress = {name,
                shard->epoch,
                shard->steps,
                shard->rows,
                shard->epoch_rows,
                shard->epoch_total,
                feed_->wait_seconds()};
  }
  lock.unlock();
  if (progress.steps > 0) try_send(progress);
}

StoreReply Session::ask_store(StoreRequest request, milliseconds timeout) {
  {
    std::lock_guard lock(mutex_);
    request.request = next_request_++;
  }
  send(request);
  std::unique_lock lock(mutex_);
  bool answered = changed_.wait_for(
      lock, timeout, [&] { return driver_gone_ || replies_.contains(request.request); });
  if (driver_gone_)
    throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
  if (!answered) {
    throw Error(ErrorKind::kTimeout, str("rank ", begin_.rank, " waited ", timeout.count(),
                                         " ms for '", request.keys.empty() ? "" : request.keys[0],
                                         "', which another worker has to provide"));
  }
  auto reply = std::move(replies_.at(request.request));
  replies_.erase(request.request);
  return reply;
}

}  // namespace manta::train
