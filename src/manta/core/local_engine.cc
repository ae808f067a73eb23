#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include <cstring>
#include <filesystem>
#include <fstream>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/local_engine_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

// Loading a program's libraries takes a second at most.
constexpr std::chrono::seconds kReadyDeadline{60};
constexpr std::streamsize kLastBytes = 2000;

// What the file has from `begin` on, if that is not long.
std::string last_words(const std::string& path, uintmax_t begin) {
  std::ifstream in(path, std::ios::binary);
  in.seekg(static_cast<std::streamoff>(begin));
  std::string text(kLastBytes, '\0');
  in.read(text.data(), kLastBytes);
  text.resize(static_cast<size_t>(in.gcount()));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

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

void LocalEngine::start_zygote() {
  auto [ours, theirs] = socket_pair();
  // Its orders are in the socket before it starts. So it removes the folder even if this process is
  // killed before the zygote is up, or before the loop has run once.
  StartAs start;
  start.driver_pid = ::getpid();
  start.address = options_.address;
  start.session_folder = options_.session_folder;
  start.build_id = program_build_id();
  start.outlives_sigterm = options_.outlives_sigterm;
  OutBuffer orders;
  encode_message<ToZygote>(orders, start);
  if (orders.flush(ours.get()) != IoStatus::kDone) throw_errno("telling the zygote what it is");
  std::string log_path = zygote_log();
  std::error_code no_log_yet;
  zygote_log_begin_ = std::filesystem::file_size(log_path, no_log_yet);
  if (no_log_yet) zygote_log_begin_ = 0;
  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
  ::posix_spawn_file_actions_addopen(&actions, 1, log_path.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
  // Nothing else of the driver's is left open in the zygote: a pipe's reader would wait for its
  // end, say.
  ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 3);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 4);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none;
  ::sigemptyset(&none);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  // What the driver ignores (SIGCHLD, say) must not be ignored there: it would never learn of an
  // end.
  sigset_t all;
  ::sigfillset(&all);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  // A session of its own from the first moment: a Ctrl-C at the terminal is for the driver.
  ::posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);

  // Arrow's allocator would start a thread as soon as the library is loaded, and forking then would
  // not be safe.
  std::map<std::string, std::string> changes = {
      {kStartVariable, "3"}, {"JE_ARROW_MALLOC_CONF", "background_thread:false"}};
  // With more CPUs to give away than there are, workers share processors. Threads of OpenMP that
  // spin while they wait for each other then keep those from running that they wait for: 27 s
  // instead of 1 s for four workers of XGBoost with two threads each, on two processors.
  if (options_.node.total.cpus > detect_resources().cpus && !std::getenv("OMP_WAIT_POLICY")) {
    changes["OMP_WAIT_POLICY"] = "passive";
  }
  Environment environment(changes);
  std::vector<char*> argv;
  for (auto& argument : options_.argv) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int error = ::posix_spawn(&zygote_pid_, "/proc/self/exe", &actions, &attributes, argv.data(),
                            environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    zygote_pid_ = 0;
    throw Error(ErrorKind::kResources, str("starting this program again as a zygote: ",
                                           errno_text(error), "; ", describe_limits()));
  }
  theirs.reset();
  zygote_ = std::make_shared<AsyncChannel>(loop_, std::move(ours), kMaxFrameBody);
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
  if (zygote_pid_ > 0) ::kill(zygote_pid_, SIGKILL);
  std::string how = reap_zygote(std::chrono::seconds(5));
  if (!why.empty()) how = "ended: " + why;
  std::string words = last_words(zygote_log(), zygote_log_begin_);
  if (!words.empty()) how += ". It said:\n" + words;
  if (!was_ready) {
    how = str("the zygote, this program started once more, ", how);
    std::vector<ProcessId> gang;
    for (const auto& [process, state] : processes_) gang.push_back(process);
    processes_.clear();
    if (gang.empty()) return log_warning(how);  // who needs it next starts another
    return events_.on_start_failed(gang, how);
  }
  log_warning(str("the zygote ", how, "; its workers ended with it"));
  // Every worker asks the kernel to be killed with the zygote; what workers started, nobody does.
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
  zygote_->flush_and_close();  // it ends what is left, and then itself
  zygote_.reset();
  reap_zygote(std::chrono::seconds(10));
}

// How it ended.
std::string LocalEngine::reap_zygote(std::chrono::milliseconds patience) {
  if (zygote_pid_ <= 0) return "ended";
  int status = 0;
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, zygote_pid_, 0)));
  if (pidfd) {
    pollfd entry{pidfd.get(), POLLIN, 0};
    Deadline deadline = Deadline::after(patience);
    while (::poll(&entry, 1, deadline.poll_milliseconds()) < 0) {
    }
    if (!entry.revents) {
      log_warning(str("the zygote (pid ", zygote_pid_, ") did not end by itself and is killed"));
      ::kill(zygote_pid_, SIGKILL);
    }
    ::waitpid(zygote_pid_, &status, 0);
  }
  zygote_pid_ = 0;
  ProcessExit exit;
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return exit.describe();
}

}  // namespace manta
