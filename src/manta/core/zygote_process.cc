#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdlib>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/resources_internal.h"
#include "manta/core/zygote_internal.h"
#include "manta/core/zygote_process_internal.h"

namespace manta {
namespace {

constexpr size_t kMostOfItsOutput = 2000;  // bytes
constexpr int kZygoteSocket = 3;           // the descriptor's number there

/// The zygote's open descriptors, signals and session.
class SpawnSettings {
 public:
  SpawnSettings(int socket, int output) {
    ::posix_spawn_file_actions_init(&actions_);
    ::posix_spawn_file_actions_addopen(&actions_, 0, "/dev/null", O_RDONLY, 0);
    // No other descriptor of the driver is left open in the zygote. Otherwise, for example, the
    // reader of a pipe would wait for the zygote's end.
    ::posix_spawn_file_actions_adddup2(&actions_, output, 1);
    ::posix_spawn_file_actions_adddup2(&actions_, output, 2);
    ::posix_spawn_file_actions_adddup2(&actions_, socket, kZygoteSocket);
    ::posix_spawn_file_actions_addclosefrom_np(&actions_, kZygoteSocket + 1);
    ::posix_spawnattr_init(&attributes_);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::posix_spawnattr_setsigmask(&attributes_, &none);
    // What the driver ignores (SIGCHLD, say) must not be ignored there: it would never learn of an
    // end.
    ::sigfillset(&all);
    ::posix_spawnattr_setsigdefault(&attributes_, &all);
    // The zygote has its own session from the first moment: a Ctrl-C at the terminal is for the
    // driver.
    ::posix_spawnattr_setflags(&attributes_,
                               POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSID);
  }
  ~SpawnSettings() {
    ::posix_spawn_file_actions_destroy(&actions_);
    ::posix_spawnattr_destroy(&attributes_);
  }
  SpawnSettings(const SpawnSettings&) = delete;

  const posix_spawn_file_actions_t* actions() const { return &actions_; }
  const posix_spawnattr_t* attributes() const { return &attributes_; }

 private:
  posix_spawn_file_actions_t actions_;
  posix_spawnattr_t attributes_;
};

Environment environment_of_zygote(double cpus) {
  // Otherwise Arrow's allocator would start a thread as soon as the library is loaded, and forking
  // would not be safe.
  std::map<std::string, std::string> changes = {
      {kStartVariable, std::to_string(kZygoteSocket)},
      {"JE_ARROW_MALLOC_CONF", "background_thread:false"}};
  // If the node offers more CPUs than it has, workers share processors. Then OpenMP threads that
  // spin while they wait keep the threads they wait for from running: on two processors, four
  // XGBoost workers with two threads each took 27 s instead of 1 s.
  if (cpus > detect_resources().cpus && !std::getenv("OMP_WAIT_POLICY")) {
    changes["OMP_WAIT_POLICY"] = "passive";
  }
  return Environment(changes);
}

// Moves a descriptor above those that the zygote gets: dup2 of a descriptor to itself would leave
// it closed in the zygote.
UniqueFd above_those_of_zygote(UniqueFd fd) {
  if (fd.get() > kZygoteSocket) return fd;
  return UniqueFd(::fcntl(fd.get(), F_DUPFD_CLOEXEC, kZygoteSocket + 1));
}

}  // namespace

ZygoteProcess::ZygoteProcess(const ZygoteOptions& options) {
  auto [ours, theirs] = socket_pair();
  // The zygote's orders are in the socket before it starts.
  StartAs start;
  start.driver_pid = ::getpid();
  start.address = options.address;
  start.session_folder = options.session_folder;
  start.build_id = program_build_id();
  OutBuffer orders;
  encode_message<ToZygote>(orders, start);
  if (orders.flush(ours.get()) != IoStatus::kDone) throw_errno("telling the zygote what it is");
  socket_ = std::move(ours);
  UniqueFd their_end = above_those_of_zygote(std::move(theirs));
  output_ = above_those_of_zygote(UniqueFd(::memfd_create("manta-zygote-output", MFD_CLOEXEC)));
  if (!output_ || !their_end) throw_errno("making what the zygote writes to");

  SpawnSettings settings(their_end.get(), output_.get());
  Environment environment = environment_of_zygote(options.cpus);
  std::vector<std::string> arguments = options.argv;
  std::vector<char*> argv;
  for (auto& argument : arguments) argv.push_back(argument.data());
  argv.push_back(nullptr);
  int error = ::posix_spawn(&pid_, "/proc/self/exe", settings.actions(), settings.attributes(),
                            argv.data(), environment.data());
  if (error == 0) return;
  pid_ = 0;
  throw Error(
      ErrorKind::kResources,
      str("starting this program again as a zygote: ", errno_text(error), "; ", describe_limits()));
}

ZygoteProcess::~ZygoteProcess() {
  kill();
  reap(std::chrono::milliseconds(0));
}

void ZygoteProcess::kill() {
  if (pid_ > 0) ::kill(pid_, SIGKILL);
}

std::string ZygoteProcess::reap(std::chrono::milliseconds patience) {
  if (pid_ <= 0) return "ended";
  int status = 0;
  UniqueFd pidfd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (pidfd) {
    pollfd entry{pidfd.get(), POLLIN, 0};
    Deadline deadline = Deadline::after(patience);
    while (::poll(&entry, 1, deadline.poll_milliseconds()) < 0) {
    }
    if (!entry.revents && patience.count() > 0) {
      log_warning(str("the zygote (pid ", pid_, ") did not end by itself and is killed"));
      kill();
    }
    ::waitpid(pid_, &status, 0);
  }
  pid_ = 0;
  ProcessExit exit;
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return exit.describe();
}

std::string ZygoteProcess::said() const {
  std::string text(kMostOfItsOutput, '\0');
  ssize_t size = ::pread(output_.get(), text.data(), text.size(), 0);
  text.resize(static_cast<size_t>(std::max<ssize_t>(size, 0)));
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

}  // namespace manta
