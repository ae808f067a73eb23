#include "manta/train/session.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <utility>

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/base/log.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/train/file_internal.h"
#include "manta/train/journal_internal.h"
#include "manta/train/session_internal.h"
#include "manta/train/staging_internal.h"
#include "manta/train/training_internal.h"

namespace manta::train {
namespace {

using std::chrono::milliseconds;

constexpr milliseconds kProgressInterval{200};
// Of a checkpoint's files on their way to the driver.
constexpr uint64_t kChunkBytes = 1 << 20;
constexpr int64_t kMostChunksInFlight = 8;
// How often the receiving thread looks at what the loop does, and from when on the driver hears of
// a wait: most last far less.
constexpr milliseconds kLookInterval{100};
constexpr milliseconds kLongWait{300};
// What a failed worker gives the others to make the report that it has made; less than the time
// after which they would give up waiting for it elsewhere, and be taken for the cause.
constexpr milliseconds kSettleTime{10'000};
// For what the driver knows at once.
constexpr milliseconds kAnswerDeadline{10'000};

// How many reports may be made ahead of the last that is committed.
constexpr int64_t kMostReportsAhead = 64;

std::atomic<Session*> current_session = nullptr;

// A folder of the user's own: copied before report() returns.
class FolderSource : public CheckpointSource {
 public:
  FolderSource(std::string from, std::string copy)
      : from_(std::move(from)), copy_(std::move(copy)) {}
  void stage() override {
    std::error_code error;
    if (!std::filesystem::is_directory(from_, error)) {
      throw Error(ErrorKind::kNotFound,
                  str("the checkpoint to report, '", from_, "', is not a folder"));
    }
    std::filesystem::create_directories(copy_, error);
    if (!error) {
      std::filesystem::copy(from_, copy_, std::filesystem::copy_options::recursive, error);
    }
    if (error) {
      throw Error(ErrorKind::kIo, str("copying the checkpoint '", from_, "': ", error.message()));
    }
  }
  void write(CheckpointFolder& folder) override {
    for (const auto& entry : std::filesystem::recursive_directory_iterator(copy_)) {
      if (!entry.is_regular_file()) continue;
      folder.copy(std::filesystem::relative(entry.path(), copy_).string(), entry.path().string());
    }
    std::filesystem::remove_all(copy_);
  }

 private:
  std::string from_, copy_;
};

// A checkpoint that is there: copied before report() returns, because it may go away.
class CopiedCheckpoint : public CheckpointSource {
 public:
  CopiedCheckpoint(Checkpoint from, std::string copy)
      : from_(std::move(from)), copy_(std::move(copy)) {}
  void stage() override { from_ = from_.to_directory(copy_); }
  void write(CheckpointFolder& folder) override {
    for (const std::string& name : from_.files())
      if (name != kPreprocessorFile) folder.copy(name, from_.file(name));
    std::filesystem::remove_all(copy_);
  }

 private:
  Checkpoint from_;
  std::string copy_;
};

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

template <class Message>
void Session::send(const Message& message) {
  channel_->send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
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
  send(SendReport{index, metrics, positions(), checkpoint != nullptr,
                  checkpoint ? checkpoint->fingerprint() : std::nullopt});
  if (!checkpoint) return;
  in_flight_.push_back(index);
  std::lock_guard lock(mutex_);
  to_write_.emplace_back(index, std::move(checkpoint));
  changed_.notify_all();
}

// The ranks make their reports together. One that is not committed costs memory in the driver, and
// with a checkpoint a copy of the model here.
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

// `last` is one of the two counters, which moves on report by report: each may take its time.
void Session::wait_for_report(int64_t index, const int64_t& last) {
  std::unique_lock lock(mutex_);
  while (true) {
    if (write_error_) throw *write_error_;
    if (driver_gone_)
      throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
    int64_t before = last;
    if (before >= index) return;
    bool moves = changed_.wait_for(lock, timeout(),
                                   [&] { return last > before || driver_gone_ || write_error_; });
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
          missing.empty() ? "whose checkpoint takes longer to write than the run's "
                            "collective_timeout"
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
        } catch (const std::exception&) {  // the driver has gone, which the receiver says
        }
      };
    }
  }
  return DataShard(state);
}

void Session::receive() {
  auto next_progress = Clock::now() + kProgressInterval;
  try {
    while (true) {
      {
        std::lock_guard lock(mutex_);
        if (closing_) return;
      }
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
  std::unique_lock lock(mutex_);
  if (auto* acknowledged = std::get_if<Acknowledged>(&message)) {
    (acknowledged->committed ? committed_ : gathered_) = acknowledged->index;
  } else if (auto* reply = std::get_if<StoreReply>(&message)) {
    replies_[reply->request] = std::move(*reply);
  } else if (std::holds_alternative<ChunkTaken>(message)) {
    --chunks_in_flight_;
  } else if (std::holds_alternative<WantAsks>(message) && !std::exchange(stop_wanted_, true)) {
    SendAsks answer{asks_};
    lock.unlock();
    send(answer);
    return true;
  } else if (auto* stop = std::get_if<StopFrom>(&message)) {
    stop_from_ = stop->ask;
  }
  changed_.notify_all();
  return true;
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
// other. That a wait is over need not be told: see find_standstill.
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
  if (watch_.read().version != seen.version) return;  // what it holds may be of two moments
  told_ = true;
  send(message);
}

std::optional<Activity> Session::thrown_from() const {
  Wait wait = watch_.thrown_from();
  if (wait.kind == Wait::kNone) wait = watch_.read().wait;  // one without a scope
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
  if (progress.steps > 0) send(progress);
}

void Session::write() {
  while (true) {
    std::pair<int64_t, std::shared_ptr<CheckpointSource>> job;
    {
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [&] { return closing_ || !to_write_.empty(); });
      if (closing_) return;  // nobody waits for what is left
      job = std::move(to_write_.front());
      to_write_.pop_front();
    }
    try {
      CheckpointFolder folder(staging(job.first));
      job.second->write(folder);
      job.second.reset();
      if (!begin_.place.shares_folder) send_to_driver(job.first, folder);
      send(SendFiles{job.first, folder.files()});
    } catch (const Error& error) {
      fail_to_write(job.first, error.kind(), error.what());
    } catch (const std::exception& error) {
      fail_to_write(job.first, ErrorKind::kIo, error.what());
    } catch (...) {
      fail_to_write(job.first, ErrorKind::kUserCode,
                    "it threw something that is no std::exception");
    }
  }
}

std::string Session::staging(int64_t index) const {
  std::string run =
      begin_.place.shares_folder ? begin_.run_folder : temporary_folder() + "/" + begin_.run_name;
  return staging_folder(run, begin_.attempt, index, begin_.rank);
}

void Session::send_to_driver(int64_t index, const CheckpointFolder& folder) {
  std::string buffer;
  for (const CheckpointFile& file : folder.files()) {
    std::string path = folder.path() + "/" + file.name;
    UniqueFd from = open_file(folder.path(), file.name, O_RDONLY);
    for (uint64_t offset = 0; offset < file.size || offset == 0;) {
      buffer.resize(std::min<uint64_t>(kChunkBytes, file.size - offset));
      size_t got = 0;
      while (got < buffer.size()) {
        ssize_t now = ::read(from.get(), buffer.data() + got, buffer.size() - got);
        if (now < 0 && errno == EINTR) continue;
        if (now <= 0) throw_errno(str("reading '", path, "'"));
        got += static_cast<size_t>(now);
      }
      send_chunk({index, file.name, offset, buffer});
      offset += got;
      if (file.size == 0) break;
    }
  }
  wait_for_chunks(0);
  std::filesystem::remove_all(folder.path());
}

// The driver's memory and the connection hold only so many.
void Session::send_chunk(SendChunk chunk) {
  wait_for_chunks(kMostChunksInFlight - 1);
  {
    std::lock_guard lock(mutex_);
    ++chunks_in_flight_;
  }
  send(chunk);
}

// Until the driver has written all but so many of them.
void Session::wait_for_chunks(int64_t most) {
  std::unique_lock lock(mutex_);
  bool written = changed_.wait_for(
      lock, timeout(), [&] { return chunks_in_flight_ <= most || driver_gone_ || closing_; });
  if (driver_gone_ || closing_)
    throw Error(ErrorKind::kWorkerLost, "the driver has ended this group, or has ended itself");
  if (!written) {
    throw Error(ErrorKind::kTimeout,
                str("the driver has not written a part of a checkpoint of rank ", begin_.rank,
                    " within ", timeout().count(), " ms: its disk is too slow, or raise the run's ",
                    "collective_timeout"));
  }
}

void Session::fail_to_write(int64_t index, ErrorKind kind, const std::string& why) {
  std::string message = str("writing the checkpoint of report ", index, ": ", why);
  {
    std::lock_guard lock(mutex_);
    write_error_ = Error(kind, message);
    changed_.notify_all();
  }
  try {
    send(SendFailure{kind, message, false});
  } catch (const std::exception&) {  // the driver has gone
  }
}

bool Session::is_consequence(const std::exception& error) const {
  if (auto* ours = dynamic_cast<const Error*>(&error)) {
    return ours->kind() == ErrorKind::kWorkerLost || ours->kind() == ErrorKind::kTimeout;
  }
  return consequence_check_ && consequence_check_(error);
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

Context get_context() {
  const auto& begin = Session::current("get_context").begin();
  const Place& place = begin.place;
  return {begin.rank,      begin.world_size, place.local_rank, place.local_size, place.node_rank,
          place.num_nodes, place.node,       begin.run_name,   begin.run_folder, begin.attempt};
}

void report(const Json& metrics) { Session::current("report").report(metrics, nullptr); }
void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint) {
  Session::current("report").report(metrics, std::move(checkpoint));
}
void report(const Json& metrics, const std::string& checkpoint_folder) {
  Session& session = Session::current("report");
  std::string copy = session.staging(session.next_report()) + ".copy";
  session.report(metrics, std::make_shared<FolderSource>(checkpoint_folder, copy));
}
void report(const Json& metrics, const Checkpoint& checkpoint) {
  if (!checkpoint) return report(metrics);
  Session& session = Session::current("report");
  std::string staging = staging_folder(session.begin().run_folder, session.begin().attempt,
                                       session.next_report(), session.begin().rank);
  session.report(metrics, std::make_shared<CopiedCheckpoint>(checkpoint, staging + ".copy"));
}
bool should_stop() { return Session::current("should_stop").should_stop(); }
Checkpoint get_checkpoint() { return Session::current("get_checkpoint").checkpoint(); }
DataShard get_dataset_shard(const std::string& name) {
  return Session::current("get_dataset_shard").shard(name);
}

}  // namespace manta::train
