#include "manta/tune/session.h"

#include "manta/base/error_internal.h"
#include "manta/base/json_input_internal.h"
#include "manta/core/call_function_internal.h"
#include "manta/io/channel_internal.h"
#include "manta/train/session.h"
#include "manta/train/session_internal.h"
#include "manta/train/staging_internal.h"
#include "manta/tune/function_messages_internal.h"
#include "manta/tune/trainable.h"

namespace manta::tune {
namespace {

// The driver commits the checkpoint and appends a line to its journal.
constexpr std::chrono::minutes kVerdictDeadline{5};

struct StopTrial {};  // no std::exception: a function should not take it for an error of its own

/// What a function calls while it runs.
class FunctionSession {
 public:
  explicit FunctionSession(const TrialCall& call) : call_(call), next_(call.next_report) {
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
    if (checkpoint) {
      checkpoint->stage();
      CheckpointFolder folder(
          train::staging_folder(call_.folder, call_.attempt, next_, /*rank=*/0));
      checkpoint->write(folder);
      message.files = folder.files();
    }
    join();
    channel_->send([&](OutBuffer& out) { encode_message<FromTrial>(out, message); });
    ++next_;
    await_verdict();
  }

  static void check_metrics(const Json& metrics) {
    if (!metrics.is_object())
      throw Error(ErrorKind::kInvalidArgument,
                  str("metrics must be a JSON object such as {{\"loss\", 0.5}}; received ",
                      short_text(metrics)));
  }

 private:
  void join() {
    if (channel_) return;
    channel_ = std::make_unique<Channel>(connect_unix(call_.address));
    JoinExperiment message{call_.token, call_.trial, call_.attempt};
    channel_->send([&](OutBuffer& out) { encode_message<FromTrial>(out, message); });
  }

  void await_verdict() {
    Frame frame;
    if (!channel_->receive(&frame, Deadline::after(kVerdictDeadline)))
      throw Error(ErrorKind::kCancelled, "the experiment of this trial has ended");
    auto verdict = std::get<SendVerdict>(decode_message<ToTrial>(frame));
    if (!verdict.error.empty()) throw Error(ErrorKind::kIo, verdict.error);
    stopped_ = verdict.stop;
    if (stopped_) throw StopTrial();
  }

  static inline FunctionSession* current = nullptr;

  const TrialCall& call_;
  int64_t next_;
  bool stopped_ = false;
  std::unique_ptr<Channel> channel_;
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
  const TrialCall& call = FunctionSession::get("get_checkpoint").call();
  return call.checkpoint.empty() ? Checkpoint() : Checkpoint::from_directory(call.checkpoint);
}

}  // namespace manta::tune
