#include <atomic>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/session_folder_internal.h"
#include "manta/tune/report_server_internal.h"

namespace manta::tune {
namespace {

std::string new_address() {
  static std::atomic<int> count{0};
  return str(current_session_folder(), "/tune-", count++, ".sock");
}

}  // namespace

ReportServer::ReportServer(OnReport on_report)
    : on_report_(std::move(on_report)), token_(random_token()), address_(new_address()) {
  listener_ =
      std::make_unique<UnixListener>(loop_, address_, [this](const Channel& channel, Frame& frame) {
        auto message = decode_message<FromTrial>(frame);
        auto* join = std::get_if<JoinExperiment>(&message);
        if (!join) throw Error(ErrorKind::kCorrupt, "its first message does not say what it is");
        on_join(channel, *join);
      });
  thread_ = start_thread("the thread that hears trials", [this] { loop_.context.run(); });
}

ReportServer::~ReportServer() {
  loop_.context.stop();
  thread_.join();
  for (auto& [trial, member] : members_) {
    if (member.channel) member.channel->close();
  }
}

void ReportServer::on_join(const Channel& channel, const JoinExperiment& join) {
  auto found = members_.find(join.trial);
  bool expected =
      found != members_.end() && found->second.attempt == join.attempt && !found->second.channel;
  if (!same_secret(join.token, token_) || !expected)
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  found->second.channel = channel;
  channel->trust();
  channel->start(
      [this, trial = join.trial, attempt = join.attempt](Frame& frame) {
        auto message = decode_message<FromTrial>(frame);
        auto* report = std::get_if<SendTrialReport>(&message);
        if (!report) throw Error(ErrorKind::kCorrupt, "it joined twice");
        if (auto verdict = on_report_(trial, attempt, *report)) send(trial, attempt, *verdict);
      },
      [this, trial = join.trial, attempt = join.attempt](const std::string& why) {
        // Of its end the task tells.
        if (!why.empty()) log_warning(str("the connection of trial ", trial, " broke: ", why));
        auto member = members_.find(trial);
        if (member != members_.end() && member->second.attempt == attempt)
          member->second.channel.reset();
      });
}

void ReportServer::expect(uint64_t trial, int attempt) {
  std::lock_guard lock(loop_.mutex);
  members_[trial] = {attempt, nullptr};
}

void ReportServer::forget(uint64_t trial, int attempt) {
  std::lock_guard lock(loop_.mutex);
  auto found = members_.find(trial);
  if (found == members_.end() || found->second.attempt != attempt) return;
  if (found->second.channel) found->second.channel->close();
  members_.erase(found);
}

void ReportServer::answer(uint64_t trial, int attempt, const SendVerdict& verdict) {
  std::lock_guard lock(loop_.mutex);
  send(trial, attempt, verdict);
}

void ReportServer::send(uint64_t trial, int attempt, const SendVerdict& verdict) {
  auto found = members_.find(trial);
  if (found == members_.end() || found->second.attempt != attempt || !found->second.channel) return;
  encode_message<ToTrial>(found->second.channel->out_to_flush(), verdict);
  found->second.channel->flush();
}

}  // namespace manta::tune
