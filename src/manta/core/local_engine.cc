#include <signal.h>

#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/local_engine_internal.h"

namespace manta {
namespace {

// Loading a program's libraries takes a second at most.
constexpr std::chrono::seconds kReadyDeadline{60};

}  // namespace

std::string ProcessExit::describe() const {
  if (!node_lost.empty()) return "was lost with its node: " + node_lost;
  if (lost_with != 0) return "ended because the zygote, its parent, had ended";
  if (signal == SIGKILL)
    return "was killed by SIGKILL (signal 9; perhaps the machine ran out of memory)";
  if (signal != 0) {
    const char* name = ::sigabbrev_np(signal);
    return str("was killed by ", name ? str("SIG", name) : "a signal", " (signal ", signal, ")",
               crash);
  }
  return str("exited with code ", code);
}

LocalEngine::LocalEngine(EventLoop& loop, LocalEngineOptions options, EngineEvents& events)
    : loop_(loop), options_(std::move(options)), events_(events) {
  start_zygote();
  events_.on_node_joined(options_.node);
}

LocalEngine::~LocalEngine() { shutdown(); }

ZygoteOptions LocalEngineOptions::for_zygote() const {
  return {address, session_folder, argv, node.total.cpus};
}

void LocalEngine::start_zygote() {
  process_ = options_.zygote ? std::exchange(options_.zygote, nullptr)
                             : std::make_shared<ZygoteProcess>(options_.for_zygote());
  zygote_ = std::make_shared<AsyncChannel>(loop_, process_->take_socket(), kMaxFrameBody);
  zygote_->start([this](Frame& frame) { on_frame(frame); },
                 [this](const std::string& why) { on_zygote_gone(why); });
  ready_timer_ = loop_.after(kReadyDeadline, [this] {
    on_zygote_gone("it did not reach manta::init in time; is that the first line of main?");
  });
}

std::vector<ProcessId> LocalEngine::start(const std::vector<Placed>& gang) {
  std::vector<ProcessId> ids;
  std::vector<std::pair<ProcessId, ProcessSpec>> numbered;
  for (const Placed& each : gang) {
    ids.push_back(next_process_++);
    numbered.emplace_back(ids.back(), each.spec);
  }
  start_as(numbered);
  return ids;
}

void LocalEngine::start_as(const std::vector<std::pair<ProcessId, ProcessSpec>>& gang) {
  StartGang request{gang};
  std::vector<ProcessId> ids;
  for (const auto& [process, spec] : gang) {
    ids.push_back(process);
    processes_[process].detached = !spec.detached_call.empty();
  }
  try {
    if (!zygote_) start_zygote();
    encode_message<ToZygote>(zygote_->out(), request);
  } catch (const Error& error) {
    loop_.post([this, ids, why = std::string(error.what())] {
      for (ProcessId process : ids) processes_.erase(process);
      events_.on_start_failed(ids, why);
    });
  }
}

void LocalEngine::kill(ProcessId process) {
  if (zygote_ && processes_.contains(process)) {
    encode_message<ToZygote>(zygote_->out(), KillProcess{process});
  }
}

void LocalEngine::on_frame(Frame& frame) {
  FromZygote message = decode_message<FromZygote>(frame);
  if (auto* ready = std::get_if<ZygoteReady>(&message)) {
    if (ready->build_id != program_build_id())
      return on_zygote_gone("it is of another build: " + to_hex(ready->build_id));
    ready_timer_.reset();
  } else if (auto* started = std::get_if<GangStarted>(&message)) {
    for (const auto& [process, pid] : started->pids) {
      processes_[process].pid = pid;
      events_.on_started(process, pid);
    }
  } else if (auto* failed = std::get_if<GangFailed>(&message)) {
    for (ProcessId process : failed->gang) processes_.erase(process);
    events_.on_start_failed(failed->gang, failed->why);
  } else if (auto* exit = std::get_if<ProcessExit>(&message)) {
    processes_.erase(exit->process);
    events_.on_exited(*exit);
  } else if (auto* notice = std::get_if<ZygoteNotice>(&message)) {
    log_warning(notice->text);
  }
}

void LocalEngine::on_zygote_gone(const std::string& why) {
  bool was_ready = !ready_timer_;
  ready_timer_.reset();
  if (zygote_) zygote_->close();
  zygote_.reset();
  process_->kill();
  std::string how = process_->reap(std::chrono::seconds(5));
  if (!why.empty()) how = "ended: " + why;
  std::string words = process_->said();
  if (!words.empty()) how += ". It said:\n" + words;
  if (!was_ready) {
    how = str("the zygote, this program started once more, ", how);
    std::vector<ProcessId> gang;
    for (const auto& [process, state] : processes_) gang.push_back(process);
    processes_.clear();
    if (gang.empty()) return log_warning(how);  // the next start of a process starts another
    return events_.on_start_failed(gang, how);
  }
  log_warning(str("the zygote ", how, "; its workers ended with it"));
  // Every worker asks the kernel to be killed with the zygote; processes that workers started do
  // not.
  auto lost = std::move(processes_);
  processes_.clear();
  ++times_lost_;
  for (const auto& [process, state] : lost) {
    if (!state.detached) {
      if (state.pid > 0) ::kill(-state.pid, SIGKILL);
      ProcessExit exit;
      exit.process = process;
      exit.signal = SIGKILL;
      exit.lost_with = times_lost_;
      events_.on_exited(exit);
    } else if (state.pid == 0) {
      events_.on_start_failed({process}, "the zygote ended before it was started");
    }
  }
}

void LocalEngine::shutdown() {
  ready_timer_.reset();
  if (!zygote_) return;
  zygote_->flush_and_close();  // the zygote ends the remaining processes, and then itself
  zygote_.reset();
  process_->reap(std::chrono::seconds(10));
}

}  // namespace manta
