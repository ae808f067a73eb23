#include "manta/train/session.h"

#include <sys/socket.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;

// How long a failed worker waits for the others to make its last report. It is less than the time
// after which they would give up waiting for it elsewhere, and be taken for the cause.
constexpr milliseconds kSettleTime{10'000};
// The deadline for answers that the driver knows at once.
constexpr milliseconds kAnswerDeadline{10'000};

// How many reports may be ahead of the last committed one.
constexpr int64_t kMostReportsAhead = 64;

std::atomic<Session*> current_session = nullptr;

}  // namespace

Session::Session(std::shared_ptr<Channel> channel, BeginTraining begin)
    : channel_(std::move(channel)),
      begin_(std::move(begin)),
      next_report_(begin_.next_report),
      gathered_(begin_.next_report - 1),
      committed_(begin_.next_report - 1) {
  if (UniqueFd feed = begin_.feed.take()) {
    feed_ = std::make_shared<data::FeedClient>(std::move(feed), begin_.rank, begin_.world_size,
                                               timeout());
  }
  writer_ = start_thread("the thread that writes checkpoints", [this] { write(); });
  try {
    receiver_ = start_thread("the thread that hears the driver", [this] { receive(); });
  } catch (const Error&) {
    end_threads();
    throw;
  }
  Session* none = nullptr;
  if (current_session.compare_exchange_strong(none, this)) return;
  end_threads();
  throw Error(ErrorKind::kInvalidArgument,
              "scaling_config.num_workers = 0 runs a training loop in this process, which runs one "
              "already: wait for its end, or set num_workers = 1");
}

Session::~Session() {
  attachments_.clear();  // process groups may still use the connection
  end_threads();
}

void Session::end_threads() {
  {
    std::lock_guard lock(mutex_);
    closing_ = true;
    changed_.notify_all();
  }
  ::shutdown(channel_->fd(), SHUT_RD);  // wakes the receiver
  writer_.join();
  if (receiver_.joinable()) receiver_.join();
  Session* self = this;
  current_session.compare_exchange_strong(self, nullptr);
}

Session* Session::current_or_null() { return current_session; }

Session& Session::current(const char* api) {
  Session* session = current_session;
  if (!session) {
    throw Error(ErrorKind::kInvalidArgument,
                str("train::", api, " works only inside a training loop that a trainer runs"));
  }
  return *session;
}

void Session::report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint) {
  if (!metrics.is_object()) {
    throw Error(ErrorKind::kInvalidArgument,
                str("metrics must be a JSON object such as {{\"loss\", 0.5}}; received ",
                    short_text(metrics)));
  }
  if (begin_.rank == 0 && !begin_.checkpoint.empty() && !std::exchange(gave_checkpoint_, true)) {
    log_warning(
        str("the run goes on from '", begin_.checkpoint,
            "', but the loop has not called train::get_checkpoint(): it trains a new model"));
  }
  wait_for_place(checkpoint != nullptr);
  if (checkpoint) checkpoint->stage();
  int64_t index = next_report_++;
  send_report(index, metrics, checkpoint.get());
  if (!checkpoint) return;
  in_flight_.push_back(index);
  std::lock_guard lock(mutex_);
  to_write_.emplace_back(index, std::move(checkpoint));
  changed_.notify_all();
}

// Sends a SendReport without a copy of the metrics and, if there is no data, without making an
// empty JSON object: the loop waits for this.
void Session::send_report(int64_t index, const Json& metrics, const CheckpointSource* checkpoint) {
  static const std::string kEmptyObject = "\xa0";  // in CBOR
  std::optional<uint64_t> fingerprint;
  if (checkpoint) fingerprint = checkpoint->fingerprint();
  bool trained_alone = checkpoint && checkpoint->was_trained_alone();
  bool needs_all_ranks = checkpoint && checkpoint->needs_all_ranks();
  channel_->send([&](OutBuffer& out) {
    OutArchive archive(out.begin(message_type<FromMember, SendReport>()));
    archive(index, metrics);
    if (begin_.datasets.empty()) {
      archive(kEmptyObject);
    } else {
      archive(positions());
    }
    archive(checkpoint != nullptr, fingerprint, trained_alone, needs_all_ranks);
    out.end(std::move(archive.fds));
  });
}

// The ranks make their reports together. A report that is not committed costs memory in the driver
// and, with a checkpoint, a copy of the model here.
void Session::wait_for_place(bool has_checkpoint) {
  int64_t oldest = next_report_ - kMostReportsAhead;
  if (has_checkpoint && in_flight_.size() == static_cast<size_t>(begin_.max_in_flight)) {
    oldest = std::max(oldest, in_flight_.front());
    in_flight_.pop_front();
  }
  WaitWatch::Scope scope(&watch_, Wait{Wait::kReport, next_report_ - 1});
  wait_for_report(next_report_ - 1, gathered_);
  wait_for_report(oldest, committed_);
}

void Session::finish() {
  WaitWatch::Scope scope(&watch_, Wait{Wait::kReturned, next_report_ - 1});
  wait_for_report(next_report_ - 1, committed_);
}

void Session::settle() {
  std::unique_lock lock(mutex_);
  changed_.wait_for(lock, std::min(timeout() / 4, kSettleTime),
                    [&] { return committed_ >= next_report_ - 1 || driver_gone_ || write_error_; });
}

bool Session::was_ended() const {
  std::lock_guard lock(mutex_);
  return driver_gone_;
}

bool Session::should_stop() {
  std::unique_lock lock(mutex_);
  int64_t number = ++asks_;
  if (!stop_wanted_) return false;
  bool known =
      changed_.wait_for(lock, timeout(), [&] { return stop_from_ || driver_gone_ || closing_; });
  if (driver_gone_ || closing_)
    throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
  if (!known) {
    throw Error(ErrorKind::kTimeout,
                str("rank ", begin_.rank, " waited ", timeout().count(),
                    " ms in train::should_stop for the other ranks to say how often they have "
                    "asked; one of them has stopped or lost the driver"));
  }
  return number >= *stop_from_;
}

std::pair<int64_t, bool> Session::asks() const {
  std::lock_guard lock(mutex_);
  return {asks_, stop_from_ && asks_ >= *stop_from_};
}

// `last` is one of the two counters, which moves on report by report. The timeout begins anew with
// each report, and with each part of a checkpoint that any process writes: reports wait for its
// end.
void Session::wait_for_report(int64_t index, const int64_t& last) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (write_error_) throw *write_error_;
    if (driver_gone_)
      throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
    int64_t before = last;
    if (before >= index) return;
    bool moves = changed_.wait_for(lock, timeout(), [&, written = writes_] {
      return last > before || writes_ > written || driver_gone_ || write_error_;
    });
    if (!moves) break;
  }
  index = last + 1;
  lock.unlock();
  StoreRequest who;
  who.kind = StoreRequest::kMissing;
  who.amount = index;
  std::string missing = ask_store(who, kAnswerDeadline).value;
  throw Error(
      ErrorKind::kTimeout,
      str("rank ", begin_.rank, " waited ", timeout().count(), " ms for report ", index, ", ",
          missing.empty() ? "of whose checkpoint nothing was written for that long: the disk "
                            "stands still, or raise the run's collective_timeout"
                          : "which rank " + missing + " has not made"));
}

Json Session::positions() const {
  Json all = Json::object();
  for (const auto& [name, from] : begin_.datasets) {
    auto shard = shards_.find(name);
    if (shard == shards_.end()) {
      all[name] = from.to_json();
      continue;
    }
    const data::ShardState& state = *shard->second;
    all[name] = state.position.to_json();
    if (state.rows_of_epoch) all[name][kRowsOfEpoch] = *state.rows_of_epoch;
  }
  return all;
}

Checkpoint Session::checkpoint() {
  gave_checkpoint_ = true;
  return begin_.checkpoint.empty() ? Checkpoint() : Checkpoint::from_directory(begin_.checkpoint);
}

DataShard Session::shard(const std::string& name) {
  auto found = begin_.datasets.find(name);
  if (found == begin_.datasets.end()) {
    std::string names;
    for (const auto& [each, from] : begin_.datasets) names += str(names.empty() ? "" : ", ", each);
    throw Error(ErrorKind::kNotFound,
                str("the trainer was given no data set '", name,
                    "'; it has: ", names.empty() ? "none (set `datasets`)" : names));
  }
  std::lock_guard lock(mutex_);
  auto& state = shards_[name];
  if (!state) {
    state = std::make_shared<data::ShardState>(feed_, name, found->second);
    if (auto epochs = begin_.epochs.find(name); epochs != begin_.epochs.end()) {
      state->epochs = epochs->second;
    }
    state->watch = &watch_;
    state->current_step = current_step_;
    if (begin_.rank == 0) {
      state->on_pass = [channel = channel_, name](bool begins, int64_t epoch, int64_t rows) {
        try {
          SendEpoch message{name, epoch, rows, begins};
          channel->send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
        } catch (const std::exception&) {  // the driver has gone; the receiving thread reports it
        }
      };
    }
  }
  return DataShard(state);
}

bool Session::is_consequence(const std::exception& error) const {
  if (auto* ours = dynamic_cast<const Error*>(&error)) {
    return ours->kind() == ErrorKind::kWorkerLost || ours->kind() == ErrorKind::kTimeout;
  }
  return consequence_check_ && consequence_check_(error);
}

}  // namespace manta::train
