#pragma once

#include <atomic>
#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "manta/base/names_internal.h"
#include "manta/data/shard_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/io/wait_watch_internal.h"
#include "manta/train/messages_internal.h"
#include "manta/train/session.h"

namespace manta::train {

/// A worker's side of a run: its connection to the driver, its data, its reports. There is one in
/// each process.
class Session {
 public:
  Session(std::shared_ptr<Channel> channel, BeginTraining begin);
  ~Session();

  /// This process's session. Throws Error(kInvalidArgument) naming `api` outside a training loop.
  static Session& current(const char* api);
  static Session* current_or_null();

  const BeginTraining& begin() const { return begin_; }
  std::chrono::milliseconds timeout() const { return std::chrono::milliseconds(begin_.timeout_ms); }

  void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint);
  int64_t next_report() const { return next_report_; }
  /// The folder in which this rank writes its files of a report: in the run's folder or, if the
  /// node does not see that, in the node's temporary folder, from which the files are sent.
  std::string staging(int64_t index) const;
  bool should_stop();
  /// How often the loop has called train::should_stop, and whether a call has returned true.
  std::pair<int64_t, bool> asks() const;
  Checkpoint checkpoint();
  DataShard shard(const std::string& name);
  /// Waits until every report is committed.
  void finish();
  /// Call it after the loop has failed: waits a little for the loop's last report, so that it need
  /// not be made again.
  void settle();
  /// Whether the driver has ended this group, or has itself ended.
  bool was_ended() const;

  /// The watch in which the loop notes its waits; the driver is told of a wait that lasts.
  WaitWatch& watch() { return watch_; }
  /// How many batches the loop has taken from the passes over data that are under way. The number
  /// is the same on every rank when they exchange data of a step. -1 if another thread takes
  /// batches.
  int64_t step() const;
  /// The wait that an exception ended; nothing if the loop did not wait.
  std::optional<Activity> thrown_from() const;

  /// The loop's current step, and this worker's rows of it; nothing outside a loop over data.
  std::optional<data::StepTaken> current_step() const { return current_step_->get(); }
  /// Takes the writable memory that the workers of this host share; call it once. Empty if there is
  /// none.
  UniqueFd take_region() { return begin_.region.take(); }
  /// A request to the key-value store in the driver. Throws Error(kTimeout).
  StoreReply ask_store(StoreRequest request, std::chrono::milliseconds timeout);
  /// Sets how a framework words exceptions whose own text has parts that say nothing about the
  /// user's program.
  void set_error_text(std::function<std::string(const std::exception&)> text) {
    error_text_ = std::move(text);
  }
  std::string error_text(const std::exception& error) const {
    return error_text_ ? error_text_(error) : error.what();
  }
  /// Sets a check that recognises errors that another worker's end caused, for errors that are not
  /// Manta's own.
  void set_consequence_check(std::function<bool(const std::exception&)> check) {
    consequence_check_ = std::move(check);
  }
  bool is_consequence(const std::exception& error) const;
  /// Objects that live as long as the session, by name, such as process groups.
  std::shared_ptr<void>& attachment(const std::string& name) { return attachments_[name]; }

 private:
  void receive();
  bool receive_one();
  void end_threads();
  void write();
  void fail_to_write(int64_t index, ErrorKind kind, const std::string& why);
  void send_to_driver(int64_t index, const CheckpointFolder& folder);
  void send_chunk(SendChunk chunk);
  void wait_for_chunks(int64_t most);
  void tell_activity();
  Activity activity(const Wait& wait) const;
  void send_progress();
  void tell_writing();
  void answer_ask();
  template <class Message>
  void send(const Message& message) {
    channel_->send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
  }
  // For the receiving thread, which must not wait to send: while it waited, it would receive
  // nothing. False if it would have to wait.
  template <class Message>
  bool try_send(const Message& message) {
    return channel_->try_send([&](OutBuffer& out) { encode_message<FromMember>(out, message); });
  }
  void send_report(int64_t index, const Json& metrics, const CheckpointSource* checkpoint);
  void wait_for_place(bool has_checkpoint);
  void wait_for_report(int64_t index, const int64_t& last);
  Json positions() const;

  const std::shared_ptr<Channel> channel_;
  BeginTraining begin_;
  std::shared_ptr<data::FeedClient> feed_;
  std::map<std::string, std::shared_ptr<data::ShardState>> shards_;
  std::map<std::string, std::shared_ptr<void>> attachments_;
  const std::shared_ptr<data::CurrentStep> current_step_ = std::make_shared<data::CurrentStep>();
  std::function<std::string(const std::exception&)> error_text_;
  std::function<bool(const std::exception&)> consequence_check_;
  WaitWatch watch_;
  uint64_t seen_version_ = 0;     // of the watch; only for the receiving thread, as the next two
  Clock::time_point seen_since_;  // when it was seen first
  bool told_ = false;             // whether the driver was told of the loop's wait
  int64_t told_of_parts_ = 0;     // how many of parts_written_ the driver was told of
  int64_t next_report_;
  bool gave_checkpoint_ = false;
  std::deque<int64_t> in_flight_;  // reports with a checkpoint; some may be acknowledged

  std::atomic<int64_t> parts_written_ = 0;  // of checkpoints; grows while one is being written

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  int64_t gathered_;                  // the last report that every rank has made
  int64_t committed_;                 // the last that is committed
  int64_t writes_ = 0;                // grows while any rank, or the driver, writes a checkpoint
  int64_t asks_ = 0;                  // calls of should_stop
  std::optional<SendAsks> answer_;    // not yet sent to the driver
  bool stop_wanted_ = false;          // no further call is answered until stop_from_ is known
  std::optional<int64_t> stop_from_;  // the first call that is answered with yes
  bool closing_ = false;
  bool driver_gone_ = false;
  std::deque<std::pair<int64_t, std::shared_ptr<CheckpointSource>>> to_write_;
  std::optional<Error> write_error_;
  int64_t chunks_in_flight_ = 0;  // chunks that the driver has not written
  uint64_t next_request_ = 1;
  std::map<uint64_t, StoreReply> replies_;

  std::thread writer_;
  std::thread receiver_;
};

}  // namespace manta::train
