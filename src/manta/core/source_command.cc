#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <boost/asio/buffer.hpp>
#include <fstream>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/names_internal.h"
#include "manta/core/source_command_internal.h"
#include "manta/core/zygote_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kTermGrace{2};
// srun withdraws its job meanwhile; a busy controller may delay that.
constexpr std::chrono::seconds kUnhurriedTermGrace{30};
constexpr size_t kMostSaid = 2000;
constexpr size_t kMostLine = 1 << 20;

using boost::asio::posix::stream_descriptor;

int duplicate(int fd) {
  int copy = ::fcntl(fd, F_DUPFD_CLOEXEC, 0);
  if (copy < 0) throw_errno("duplicating a descriptor");
  return copy;
}

}  // namespace

SourceCommand::SourceCommand(EventLoop& loop, Options options, OnEnded on_ended)
    : loop_(loop), options_(std::move(options)), on_ended_(std::move(on_ended)) {
  spawn();
  watch();
}

SourceCommand::~SourceCommand() {
  *alive_ = false;
  if (pid_ <= 0) return;
  ::kill(-pid_, SIGKILL);
  ::waitpid(pid_, nullptr, 0);
}

void SourceCommand::spawn() {
  std::vector<char*> argv;
  for (auto& word : options_.words) argv.push_back(word.data());
  argv.push_back(nullptr);
  UniqueFd their_input;
  std::tie(input_, their_input) = socket_pair();  // a pipe would raise SIGPIPE here
  int out[2] = {-1, -1};
  if (options_.on_line && ::pipe2(out, O_CLOEXEC) != 0) throw_errno("pipe");
  UniqueFd our_output(out[0]), their_output(out[1]);

  posix_spawn_file_actions_t actions;
  ::posix_spawn_file_actions_init(&actions);
  ::posix_spawn_file_actions_adddup2(&actions, their_input.get(), 0);
  ::posix_spawn_file_actions_addopen(&actions, 2, options_.log.c_str(),
                                     O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
  ::posix_spawn_file_actions_adddup2(&actions, their_output ? their_output.get() : 2, 1);
  ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  sigset_t none, all;
  ::sigemptyset(&none);
  ::sigfillset(&all);
  ::posix_spawnattr_setsigmask(&attributes, &none);
  ::posix_spawnattr_setsigdefault(&attributes, &all);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  ::posix_spawnattr_setflags(
      &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
  Environment environment({}, options_.unset);
  int error =
      ::posix_spawnp(&pid_, argv[0], &actions, &attributes, argv.data(), environment.data());
  ::posix_spawn_file_actions_destroy(&actions);
  ::posix_spawnattr_destroy(&attributes);
  if (error != 0) {
    pid_ = 0;
    throw Error(ErrorKind::kIo, str("starting '", options_.words[0], "' ", options_.purpose, ": ",
                                    errno_text(error)));
  }
  pidfd_ = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, pid_, 0)));
  if (!pidfd_) throw_errno("pidfd_open");
  if (our_output)
    output_ = std::make_unique<stream_descriptor>(loop_.context, our_output.release());
}

void SourceCommand::watch() {
  watch_ = std::make_unique<stream_descriptor>(loop_.context, duplicate(pidfd_.get()));
  watch_->async_wait(stream_descriptor::wait_read,
                     // The command may be gone by then; the loop is not.
                     [this, &loop = loop_, alive = alive_](boost::system::error_code failed) {
                       std::lock_guard lock(loop.mutex);
                       if (!failed && *alive) on_end();
                     });
  if (output_) read_lines();
}

void SourceCommand::read_lines() {
  output_->async_read_some(
      boost::asio::buffer(buffer_),
      [this, &loop = loop_, alive = alive_](boost::system::error_code failed, size_t size) {
        std::lock_guard lock(loop.mutex);
        if (failed || !*alive) return;
        partial_.append(buffer_, size);
        for (size_t end; *alive && (end = partial_.find('\n')) != std::string::npos;) {
          std::string line = partial_.substr(0, end);
          partial_.erase(0, end + 1);
          options_.on_line(line);
        }
        if (!*alive) return;
        if (partial_.size() > kMostLine) partial_.clear();  // not one of our lines
        read_lines();
      });
}

void SourceCommand::say(const std::string& text) {
  ssize_t sent =
      input_ ? ::send(input_.get(), text.data(), text.size(), MSG_NOSIGNAL | MSG_DONTWAIT) : -1;
  if (sent < 0 && (errno == EPIPE || errno == ECONNRESET)) return;  // on_ended says how it ended
  if (sent != static_cast<ssize_t>(text.size())) {
    throw Error(ErrorKind::kIo,
                str("telling '", options_.words[0], "' ", options_.purpose,
                    " what to do: ", input_ ? errno_text(errno) : "its input was closed"));
  }
}

std::string SourceCommand::said() const {
  std::ifstream in(options_.log);
  std::string text((std::istreambuf_iterator<char>(in)), {});
  if (text.size() > kMostSaid) text.erase(0, text.size() - kMostSaid);
  while (!text.empty() && text.back() == '\n') text.pop_back();
  return text;
}

void SourceCommand::on_end() {
  int status = 0;
  if (::waitpid(std::exchange(pid_, 0), &status, 0) < 0) return;
  watch_.reset();
  ProcessExit exit;
  exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  std::string text = said();
  auto ended = std::move(on_ended_);
  ended(str(exit.describe(), text.empty() ? "" : ". It said:\n" + text));
}

void SourceCommand::end_after(std::chrono::milliseconds grace) {
  on_ended_ = [](const std::string&) {};
  end_timer_ = loop_.after(grace, [this] {
    if (pid_ > 0) ::kill(-pid_, SIGTERM);
    end_timer_ = loop_.after(kUnhurriedTermGrace, [this] {
      if (pid_ > 0) ::kill(-pid_, SIGKILL);
    });
  });
}

void EndingCommands::add(std::unique_ptr<SourceCommand> command, std::chrono::milliseconds grace) {
  std::erase_if(commands_, [](const auto& each) { return each->has_ended(); });
  if (!command || command->has_ended()) return;
  command->end_after(grace);
  commands_.push_back(std::move(command));
}

void EndingCommands::finish(Deadline deadline) {
  for (auto& command : commands_) command->ask_to_end();
  for (auto& command : commands_) command->finish(deadline);
}

void SourceCommand::ask_to_end() {
  if (pid_ > 0) ::kill(-pid_, SIGTERM);
}

bool SourceCommand::await_end(Deadline deadline) const {
  pollfd entry{pidfd_.get(), POLLIN, 0};
  while (::poll(&entry, 1, deadline.poll_milliseconds()) < 0) {
  }
  return entry.revents != 0;
}

void SourceCommand::finish(Deadline deadline) {
  *alive_ = false;
  watch_.reset();
  output_.reset();
  input_.reset();
  if (pid_ <= 0) return;
  if (!await_end(deadline)) {
    ::kill(-pid_, SIGTERM);
    if (!await_end(Deadline::after(kTermGrace))) {
      log_warning(str("the command '", options_.words[0], "' ", options_.purpose,
                      " did not end and is killed"));
      ::kill(-pid_, SIGKILL);
    }
  }
  ::waitpid(std::exchange(pid_, 0), nullptr, 0);
}

}  // namespace manta
