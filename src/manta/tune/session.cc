#include "manta/tune/session.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/core/call_function_internal.h"
#include "manta/core/client_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/train/session.h"
#include "manta/train/session_internal.h"
#include "manta/train/staging_internal.h"
#include "manta/tune/function_messages_internal.h"
#include "manta/tune/trainable.h"

namespace manta::tune {
namespace {

// How long the driver may take to commit a checkpoint and to append a line to its journal, or to
// write or read a part of a file for this trial, after those of other trials.
constexpr std::chrono::minutes kAnswerDeadline{5};

struct StopTrial {};  // no std::exception: a function should not take it for an error of its own

/// The session that a function uses while it runs.
class FunctionSession {
 public:
  explicit FunctionSession(const TrialCall& call)
      : call_(call), node_(Client::current("a trial")->node()), next_(call.next_report) {
    current = this;
  }
  ~FunctionSession() { current = nullptr; }
  FunctionSession(const FunctionSession&) = delete;

  static FunctionSession& get(const char* api) {
    if (current) return *current;
    throw Error(ErrorKind::kInvalidArgument,
                str("tune::", api, " works only inside a trial that a Tuner runs"));
  }

  const TrialCall& call() const { return call_; }
  int64_t next_report() const { return next_; }
  bool stopped() const { return stopped_; }

  void report(const Json& metrics, CheckpointSource* checkpoint) {
    if (stopped_) throw StopTrial();
    check_metrics(metrics);
    SendTrialReport message{next_, metrics, checkpoint != nullptr, {}};
    if (checkpoint) message.files = write(*checkpoint);
    send(message);
    ++next_;
    take_verdict(receive_one<SendVerdict>());
  }

  Checkpoint checkpoint() {
    if (call_.checkpoint.empty()) return {};
    if (sees_folder()) return Checkpoint::from_directory(call_.checkpoint);
    if (!fetched_) {
      auto folder = new_temporary_folder("checkpoint");
      train::fetch_files(*folder, call_.checkpoint_files, [this](const train::WantChunk& wanted) {
        send(wanted);
        return receive_one<train::FileChunk>();
      });
      fetched_ = std::move(folder);
    }
    return Checkpoint::from_directory(*fetched_);
  }

  static void check_metrics(const Json& metrics) {
    if (!metrics.is_object())
      throw Error(ErrorKind::kInvalidArgument,
                  str("metrics must be a JSON object such as {{\"loss\", 0.5}}; received ",
                      short_text(metrics)));
  }

 private:
  bool sees_folder() {
    if (!sees_folder_) sees_folder_ = node_ == 0 || train::sees_folder(call_.entry);
    return *sees_folder_;
  }

  std::vector<CheckpointFile> write(CheckpointSource& checkpoint) {
    checkpoint.stage();
    if (sees_folder()) {
      CheckpointFolder folder(
          train::staging_folder(call_.folder, call_.attempt, next_, /*rank=*/0));
      checkpoint.write(folder);
      return folder.files();
    }
    auto here = new_temporary_folder("staging");
    CheckpointFolder folder(*here);
    checkpoint.write(folder);
    send_to_driver(folder);
    return folder.files();
  }

  void send_to_driver(const CheckpointFolder& folder) {
    int in_flight = 0;
    std::optional<FilesFailed> failed;
    auto take_answer = [&] {
      --in_flight;
      auto answer = receive();
      if (auto* why = std::get_if<FilesFailed>(&answer); why && !failed) failed = *why;
    };
    train::send_files(next_, folder, [&](const train::SendChunk& chunk) {
      if (failed) return;
      if (in_flight == train::kMostChunksInFlight) take_answer();
      send(chunk);
      ++in_flight;
    });
    while (in_flight > 0) take_answer();  // also after a failure: each report has its own
    if (failed) fail(*failed);
  }

  [[noreturn]] void fail(const FilesFailed& failed) const {
    throw Error(failed.kind, str("a checkpoint of ", call_.name,
                                 " does not get from one machine to the other: ", failed.message));
  }

  // If the driver has gone, there is no answer; `receive` reports that.
  template <class Message>
  void send(const Message& message) {
    if (!channel_) {
      channel_ = train::connect_to_driver(call_.entry, node_);
      send(JoinExperiment{call_.entry.token, call_.trial, call_.attempt, node_});
    }
    channel_->send([&](OutBuffer& out) { encode_message<FromTrial>(out, message); });
  }

  ToTrial receive() {
    Frame frame;
    try {
      if (channel_->receive(&frame, Deadline::after(kAnswerDeadline)))
        return decode_message<ToTrial>(frame);
    } catch (const Error& error) {
      if (error.kind() != ErrorKind::kTimeout) throw;
      throw Error(ErrorKind::kTimeout,
                  str("the driver has not answered ", call_.name, " for ", kAnswerDeadline.count(),
                      " minutes: its disk may be too slow for the checkpoints of all trials; save "
                      "fewer or smaller ones, or set TuneConfig::max_concurrent_trials"));
    }
    throw Error(ErrorKind::kCancelled, "the experiment of this trial has ended");
  }

  template <class Message>
  Message receive_one() {
    auto message = receive();
    if (auto* failed = std::get_if<FilesFailed>(&message)) fail(*failed);
    if (auto* expected = std::get_if<Message>(&message)) return std::move(*expected);
    throw Error(ErrorKind::kCorrupt, "the driver answers something that this trial did not ask");
  }

  void take_verdict(const SendVerdict& verdict) {
    if (!verdict.error.empty()) throw Error(ErrorKind::kIo, verdict.error);
    stopped_ = verdict.stop;
    if (stopped_) throw StopTrial();
  }

  static inline FunctionSession* current = nullptr;

  const TrialCall& call_;
  const NodeId node_;
  int64_t next_;
  bool stopped_ = false;
  std::unique_ptr<Channel> channel_;
  std::optional<bool> sees_folder_;             // the experiment's folder; set once it is known
  std::shared_ptr<const std::string> fetched_;  // the checkpoint, if it had to be fetched
};

Json metrics_of(const TrialCall& call, const Value& returned) {
  if (call.returns == Trainable::kNumber) return {{call.metric, from_value<double>(returned)}};
  Json metrics = from_value<Json>(returned);
  FunctionSession::check_metrics(metrics);
  return metrics;
}

}  // namespace

TrialReturn run_function_trial(const TrialCall& call) {
  FunctionSession session(call);
  TrialReturn result;
  Value returned;
  try {
    returned = call_function(call.function, to_value(call.config));
  } catch (const StopTrial&) {
  }
  result.stopped = session.stopped();
  result.has_metrics = call.returns != Trainable::kNothing && !result.stopped;
  if (result.has_metrics) result.metrics = metrics_of(call, returned);
  result.report = session.next_report();
  return result;
}

TrialContext get_context() {
  if (auto* training = train::Session::current_or_null()) {
    const auto& begin = training->begin();
    return {begin.run_name, begin.run_folder, begin.config, begin.attempt};
  }
  const TrialCall& call = FunctionSession::get("get_context").call();
  return {call.name, call.folder, call.config, call.attempt};
}

void report(const Json& metrics) { report(metrics, nullptr); }

void report(const Json& metrics, std::shared_ptr<CheckpointSource> checkpoint) {
  if (train::Session::current_or_null()) return train::report(metrics, std::move(checkpoint));
  FunctionSession::get("report").report(metrics, checkpoint.get());
}

Checkpoint get_checkpoint() {
  if (train::Session::current_or_null()) return train::get_checkpoint();
  return FunctionSession::get("get_checkpoint").checkpoint();
}

}  // namespace manta::tune
