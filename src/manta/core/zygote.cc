#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "manta/base/error_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/crash_internal.h"
#include "manta/core/worker_internal.h"
#include "manta/core/zygote_internal.h"

namespace manta {
namespace {

namespace fs = std::filesystem;

// Not through a link: another user may have made it.
UniqueFd open_log(const ProcessSpec& spec) {
  return UniqueFd(
      ::open(spec.log_path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW | O_CLOEXEC, 0600));
}

class Zygote {
 public:
  Zygote(Channel& channel, const StartAs& start, char** argv)
      : channel_(channel), start_(start), argv_(argv) {}

  // Returns in the driver's end only: a forked worker leaves through run_worker.
  void serve() {
    Frame frame;
    while (channel_.next_buffered(&frame))
      handle(frame);  // it came together with the zygote's orders
    // A process that the driver forked may keep the channel open beyond the driver's end.
    UniqueFd driver(static_cast<int>(::syscall(SYS_pidfd_open, start_.driver_pid, 0)));
    while (true) {
      std::vector<pollfd> watched{{channel_.fd(), POLLIN, 0}, {driver.get(), POLLIN, 0}};
      std::vector<ProcessId> order;
      for (const auto& [process, child] : children_) {
        watched.push_back({child.pidfd.get(), POLLIN, 0});
        order.push_back(process);
      }
      if (::poll(watched.data(), watched.size(), -1) < 0) continue;
      for (size_t i = 2; i < watched.size(); ++i) {
        if (watched[i].revents) reap(order[i - 2]);
      }
      if (watched[1].revents || (watched[0].revents && !receive())) return;
    }
  }

  void end_all() {
    for (const auto& [process, child] : children_) {
      if (!child.detached) ::kill(-child.pid, SIGKILL);
    }
    for (const auto& [process, child] : children_) {
      if (!child.detached) ::waitpid(child.pid, nullptr, 0);
    }
  }

  // A driver that is alive starts another zygote, and needs the folder.
  bool driver_is_gone() const {
    UniqueFd driver(static_cast<int>(::syscall(SYS_pidfd_open, start_.driver_pid, 0)));
    if (!driver) return errno == ESRCH;
    pollfd watched[] = {{channel_.fd(), POLLIN, 0}, {driver.get(), POLLIN, 0}};
    return ::poll(watched, 2, 0) > 0 && ((watched[0].revents & POLLHUP) || watched[1].revents);
  }

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
    bool detached = false;
    ProcessSpec spec;
  };

  template <class Message>
  void tell(const Message& message) {
    channel_.send([&](OutBuffer& out) { encode_message<FromZygote>(out, message); });
  }

  bool receive() {
    Frame frame;
    // Makes one read, then handles everything that it brought.
    if (!channel_.receive(&frame, Deadline::never())) return false;
    do {
      handle(frame);
    } while (channel_.next_buffered(&frame));
    return true;
  }

  void handle(Frame& frame) {
    ToZygote message = decode_message<ToZygote>(frame);
    if (auto* gang = std::get_if<StartGang>(&message)) start_gang(*gang);
    if (auto* kill = std::get_if<KillProcess>(&message)) {
      auto child = children_.find(kill->process);
      if (child != children_.end()) ::kill(-child->second.pid, SIGKILL);
    }
  }

  void reap(ProcessId process) {
    Child child = std::move(children_.at(process));
    children_.erase(process);
    if (!child.detached) ::kill(-child.pid, SIGKILL);  // processes that it started and left behind
    int status = 0;
    if (::waitpid(child.pid, &status, 0) != child.pid) status = SIGKILL;  // status taken elsewhere
    ProcessExit exit;
    exit.process = process;
    if (WIFSIGNALED(status)) {
      exit.signal = WTERMSIG(status);
      try {
        report_crash(crash_file(start_.session_folder, process), child.spec, child.pid, &exit);
      } catch (const std::exception& error) {  // the other processes must not end because of it
        tell(ZygoteNotice{str("the crash of ", child.spec.name, " (pid ", child.pid,
                              ") could not be looked into: ", error.what())});
      }
    } else {
      exit.code = WEXITSTATUS(status);
    }
    tell(exit);
  }

  void start_gang(const StartGang& request) {
    GangStarted started;
    std::string why;
    for (const auto& [process, spec] : request.gang) {
      pid_t pid = start_one(process, spec, &why);
      if (pid < 0) break;
      started.pids.emplace_back(process, pid);
    }
    if (why.empty()) return tell(started);
    GangFailed failed{{}, why};
    for (const auto& [process, pid] : started.pids) {
      ::kill(-pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      children_.erase(process);
    }
    for (const auto& [process, spec] : request.gang) failed.gang.push_back(process);
    tell(failed);
  }

  pid_t start_one(ProcessId process, const ProcessSpec& spec, std::string* why) {
    if (!can_become(spec, why)) return -1;
    int threads = count_threads();
    bool fork_only = threads == 1 && spec.detached_call.empty();
    if (threads > 1 && !told_threads_) {
      told_threads_ = true;
      tell(ZygoteNotice{
          str("a static initialiser started threads (", threads,
              " in all), so workers are started by exec instead of fork, which takes longer")});
    }
    pid_t zygote = ::getpid();
    UniqueFd ours, theirs;
    std::unique_ptr<Environment> environment;
    if (!fork_only) {
      std::tie(ours, theirs) = socket_pair();
      environment = std::make_unique<Environment>(
          std::map<std::string, std::string>{{kStartVariable, std::to_string(theirs.get())}});
    }
    pid_t pid = ::fork();
    if (pid < 0) {
      *why = str("fork of process '", spec.name, "': ", errno_text(errno), "; ", describe_limits());
      return -1;
    }
    if (pid == 0) {
      // Between here and exec only what is safe after fork in a program with threads.
      if (spec.detached_call.empty()) {
        ::setpgid(0, 0);
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (::getppid() != zygote) ::_exit(1);
      } else {
        ::setsid();
      }
      if (!fork_only) {
        ::fcntl(theirs.get(), F_SETFD, 0);
        ::execve("/proc/self/exe", argv_, environment->data());
        ::_exit(127);
      }
      forget_parent();
      try {
        become(spec);
      } catch (const std::exception& error) {
        std::fprintf(stderr, "manta: %s\n", error.what());
        ::_exit(1);
      }
      record_crashes(crash_file(start_.session_folder, process));
      run_worker(start_.address, process, spec.name);
    }
    if (spec.detached_call.empty())
      ::setpgid(pid, pid);  // here and in the child: whichever is first, a kill of the group finds
                            // it
    Child child;
    child.pid = pid;
    child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid, 0)));
    child.detached = !spec.detached_call.empty();
    child.spec = spec;
    if (!child.pidfd) {
      *why = str("pidfd_open of process '", spec.name, "': ", errno_text(errno));
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
      return -1;
    }
    children_[process] = std::move(child);
    if (!fork_only) {
      theirs.reset();
      StartAs start = start_;
      start.role = spec.detached_call.empty() ? StartAs::kWorker : StartAs::kDetached;
      start.process = process;
      start.spec = spec;
      Channel(std::move(ours)).send([&](OutBuffer& out) { encode_message<ToZygote>(out, start); });
    }
    return pid;
  }

  // Called before the fork, so that one process that cannot start keeps the others of its gang from
  // starting.
  static bool can_become(const ProcessSpec& spec, std::string* why) {
    UniqueFd log = open_log(spec);
    if (!log) {
      *why = str("process '", spec.name, "': its log file '", spec.log_path,
                 "' cannot be opened: ", errno_text(errno));
    }
    return why->empty();
  }

  // A worker must not keep the zygote's descriptors: open descriptors tell other processes that the
  // zygote lives.
  void forget_parent() {
    ::close(channel_.fd());
    for (auto& [process, child] : children_) child.pidfd.reset();
  }

  Channel& channel_;
  const StartAs& start_;
  char** argv_;
  std::map<ProcessId, Child> children_;
  bool told_threads_ = false;
};

}  // namespace

int count_threads() {
  int threads = 0;
  std::error_code error;
  for (fs::directory_iterator it("/proc/self/task", error), end; !error && it != end;
       it.increment(error))
    ++threads;
  return threads;
}

Environment::Environment(const std::map<std::string, std::string>& changes,
                         const std::vector<std::string>& without) {
  for (char** entry = environ; *entry; ++entry) {
    std::string_view text = *entry;
    std::string name(text.substr(0, text.find('=')));
    if (changes.contains(name)) continue;
    if (std::find(without.begin(), without.end(), name) == without.end()) {
      entries_.emplace_back(text);
    }
  }
  for (const auto& [name, value] : changes) entries_.push_back(name + "=" + value);
  for (auto& entry : entries_) pointers_.push_back(entry.data());
  pointers_.push_back(nullptr);
}

void become(const ProcessSpec& spec) {
  ::prctl(PR_SET_NAME, spec.name.substr(0, 15).c_str());
  UniqueFd null(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  ::dup2(null.get(), 0);
  UniqueFd log = open_log(spec);
  if (!log) throw_errno(str("opening the log file '", spec.log_path, "'"));
  ::dup2(log.get(), 1);
  ::dup2(log.get(), 2);
  line_buffer_output();
}

void outlive_sigterm() {
  struct sigaction action {};
  action.sa_handler = [](int) {};
  action.sa_flags = SA_RESTART;
  ::sigaction(SIGTERM, &action, nullptr);
}

void run_zygote(Channel& channel, const StartAs& start, char** argv) {
  outlive_sigterm();
  ::prctl(PR_SET_NAME, "manta:zygote");
  Zygote zygote(channel, start, argv);
  bool is_over = true;
  try {
    channel.send(
        [&](OutBuffer& out) { encode_message<FromZygote>(out, ZygoteReady{program_build_id()}); });
    zygote.serve();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "manta zygote: %s\n", error.what());
    is_over = zygote.driver_is_gone();
  }
  zygote.end_all();
  std::error_code ignored;
  if (is_over) fs::remove_all(start.session_folder, ignored);
  ::_exit(0);
}

}  // namespace manta
