#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/random_token_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/train/staging_internal.h"
#include "manta/tune/report_server_internal.h"

namespace manta::tune {

ReportServer::ReportServer(train::DriverEntry entry, OnReport on_report)
    : on_report_(std::move(on_report)), entry_(std::move(entry)) {
  auto listens = [this](bool is_local) {
    return [this, is_local](const Channel& channel, Frame& frame) {
      on_first(channel, frame, is_local);
    };
  };
  local_listener_ = std::make_unique<UnixListener>(loop_, entry_.socket, listens(true));
  if (has_other_nodes()) {
    tls_listener_ = std::make_unique<TlsListener>(loop_, TlsKey(entry_.token),
                                                  listen_tcp(entry_.host, 0), listens(false));
    entry_.port = tls_listener_->address().port;
    remove_mark();  // the mark of a driver that was killed; or a link, which must not be followed
    train::mark_folder(entry_);
  }
  thread_ = start_thread("the thread that hears trials", [this] { loop_.context.run(); });
}

ReportServer::~ReportServer() {
  loop_.context.stop();
  thread_.join();
  disk_.stop();
  for (auto& [trial, member] : members_) {
    if (member.channel) member.channel->close();
  }
  if (has_other_nodes()) remove_mark();
}

void ReportServer::remove_mark() const {
  std::error_code ignored;
  std::filesystem::remove_all(entry_.folder + "/" + train::kStaging, ignored);
}

void ReportServer::on_first(const Channel& channel, Frame& frame, bool is_local) {
  auto message = decode_message<FromTrial>(frame);
  auto* join = std::get_if<JoinExperiment>(&message);
  if (!join) throw Error(ErrorKind::kCorrupt, "its first message does not say what it is");
  Member* member = find(join->trial, join->attempt);
  bool expected = member && !member->channel && is_local == (join->node == 0);
  if (!same_secret(join->token, entry_.token) || !expected)
    throw Error(ErrorKind::kCorrupt, "it has no right to join");
  member->channel = channel;
  channel->trust();
  channel->start([this, trial = join->trial,
                  attempt = join->attempt](Frame& each) { on_frame(trial, attempt, each); },
                 [this, trial = join->trial, attempt = join->attempt](const std::string& why) {
                   // The task itself reports its end.
                   if (!why.empty())
                     log_warning(str("the connection of trial ", trial, " broke: ", why));
                   if (Member* closed = find(trial, attempt)) closed->channel.reset();
                 });
}

void ReportServer::on_frame(uint64_t trial, int attempt, Frame& frame) {
  auto message = decode_message<FromTrial>(frame);
  std::visit([&](auto& each) { on(trial, attempt, each); }, message);
}

void ReportServer::on(uint64_t, int, JoinExperiment&) {
  throw Error(ErrorKind::kCorrupt, "it joined twice");
}

void ReportServer::on(uint64_t trial, int attempt, SendTrialReport& message) {
  if (auto verdict = on_report_(trial, attempt, message)) send(trial, attempt, *verdict);
}

void ReportServer::on(uint64_t trial, int attempt, train::SendChunk& message) {
  disk_.add([this, trial, attempt, chunk = std::move(message)] {
    answer_from_disk(trial, attempt, [&](const TrialFiles& files) {
      train::write_chunk(train::staging_folder(files.folder, attempt, chunk.index, /*rank=*/0),
                         chunk);
      return train::ChunkTaken{};
    });
  });
}

void ReportServer::on(uint64_t trial, int attempt, train::WantChunk& message) {
  Member* member = find(trial, attempt);
  if (!member || !member->files->fetchable.contains(message.name))
    throw Error(ErrorKind::kCorrupt, "it wants a file that is not the checkpoint's");
  disk_.add([this, trial, attempt, wanted = std::move(message)] {
    answer_from_disk(trial, attempt, [&](const TrialFiles& files) {
      return train::read_chunk(files.checkpoint, wanted);
    });
  });
}

// On the thread of files. An attempt that has ended writes nothing more: the next attempt removes
// its files in the staging folder.
void ReportServer::answer_from_disk(uint64_t trial, int attempt, const DiskWork& work) {
  std::lock_guard not_forgotten(disk_mutex_);
  std::shared_ptr<const TrialFiles> files;
  {
    std::lock_guard lock(loop_.mutex);
    if (Member* member = find(trial, attempt)) files = member->files;
  }
  if (!files) return;
  ToTrial message;
  try {
    message = work(*files);
  } catch (const Error& error) {
    message = FilesFailed{error.kind(), error.what()};
  } catch (const std::exception& error) {
    message = FilesFailed{ErrorKind::kIo, error.what()};
  }
  std::lock_guard lock(loop_.mutex);
  send(trial, attempt, message);
}

void ReportServer::expect(uint64_t trial, int attempt, TrialFiles files) {
  std::lock_guard lock(loop_.mutex);
  members_[trial] = {attempt, std::make_shared<const TrialFiles>(std::move(files)), nullptr};
}

void ReportServer::forget(uint64_t trial, int attempt) {
  {
    std::lock_guard lock(loop_.mutex);
    Member* member = find(trial, attempt);
    if (!member) return;
    if (member->channel) member->channel->close();
    members_.erase(trial);
  }
  std::lock_guard none_at_work(disk_mutex_);
}

void ReportServer::answer(uint64_t trial, int attempt, const SendVerdict& verdict) {
  std::lock_guard lock(loop_.mutex);
  send(trial, attempt, verdict);
}

ReportServer::Member* ReportServer::find(uint64_t trial, int attempt) {
  auto found = members_.find(trial);
  return found == members_.end() || found->second.attempt != attempt ? nullptr : &found->second;
}

void ReportServer::send(uint64_t trial, int attempt, const ToTrial& message) {
  Member* member = find(trial, attempt);
  if (!member || !member->channel) return;
  auto channel = member->channel;
  std::visit([&](const auto& each) { encode_message<ToTrial>(channel->out_to_flush(), each); },
             message);
  channel->flush();
}

}  // namespace manta::tune
