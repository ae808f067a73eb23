// Hosts that a command reaches: ssh, or anything else that runs a program elsewhere.

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <boost/asio/posix/stream_descriptor.hpp>
#include <fstream>
#include <sstream>

#include "manta/base/deadline.h"
#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/base/names_internal.h"
#include "manta/core/node_source_internal.h"
#include "manta/core/zygote_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {
namespace {

constexpr const char* kSsh =
    "ssh -o BatchMode=yes -o ServerAliveInterval=1 -o ServerAliveCountMax=3 {host}";
constexpr std::chrono::seconds kCommandDeadline{10};

class HostsSource final : public NodeSource {
 public:
  HostsSource(EventLoop& loop, ClusterOptions& options, const SourceFiles& files)
      : loop_(loop), files_(files), hosts_(options.list), command_(options.take("command", kSsh)) {
    program_ = options.take("program", files.program);
    if (hosts_.empty()) {
      throw Error(ErrorKind::kInvalidArgument,
                  "the cluster 'hosts' names no host: write hosts:n1,n2");
    }
    // ssh hands it to a shell.
    bool plain = std::all_of(program_.begin(), program_.end(), [](unsigned char c) {
      return std::isalnum(c) ||
             std::string_view("/._-+=,@").find(static_cast<char>(c)) != std::string_view::npos;
    });
    if (!plain) {
      throw Error(ErrorKind::kInvalidArgument,
                  str("the program '", program_,
                      "' has characters in its path that a shell would not take as they are; "
                      "name another path with ;program="));
    }
  }
  ~HostsSource() override {
    for (auto& [host, child] : children_) {
      if (child.pid <= 0) continue;
      ::kill(child.pid, SIGKILL);
      ::waitpid(child.pid, nullptr, 0);
    }
  }

  size_t expected() const override { return hosts_.size(); }
  std::string a_host() const override { return hosts_.front(); }

  void start(const AgentOrder& order, OnFailed on_failed) override {
    on_failed_ = std::move(on_failed);
    for (const std::string& host : hosts_) start_one(host, order);
  }

  void finish() override {
    Deadline deadline = Deadline::after(kCommandDeadline);
    for (auto& [host, child] : children_) {
      if (child.pid <= 0) continue;
      child.watch.reset();
      pollfd entry{child.pidfd.get(), POLLIN, 0};
      while (::poll(&entry, 1, deadline.poll_milliseconds()) < 0) {
      }
      if (!entry.revents) {
        log_warning(str("the command that reaches host ", host, " did not end and is killed"));
        ::kill(child.pid, SIGKILL);
      }
      ::waitpid(std::exchange(child.pid, 0), nullptr, 0);
    }
  }

 private:
  struct Child {
    pid_t pid = 0;
    UniqueFd pidfd;
    std::string log;
    std::unique_ptr<boost::asio::posix::stream_descriptor> watch;
  };

  std::vector<std::string> command_for(const std::string& host) const {
    std::vector<std::string> words;
    std::istringstream in(command_);
    for (std::string word; in >> word;) {
      for (size_t at; (at = word.find("{host}")) != std::string::npos;) word.replace(at, 6, host);
      words.push_back(word);
    }
    words.insert(words.end(), {"env", str(kNodeVariable, "=stdin"), program_});
    return words;
  }

  void start_one(const std::string& host, AgentOrder order) {
    order.started_as = host;
    auto words = command_for(host);
    std::vector<char*> argv;
    for (auto& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    int ends[2];
    if (::pipe2(ends, O_CLOEXEC) != 0) throw_errno("pipe");
    UniqueFd theirs(ends[0]), ours(ends[1]);
    Child& child = children_[host];
    child.log = files_.session_folder + "/agent-" + std::to_string(children_.size()) + ".log";
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, theirs.get(), 0);
    ::posix_spawn_file_actions_addopen(&actions, 1, child.log.c_str(),
                                       O_WRONLY | O_CREAT | O_APPEND | O_NOFOLLOW, 0600);
    ::posix_spawn_file_actions_adddup2(&actions, 1, 2);
    ::posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawnattr_t attributes;
    ::posix_spawnattr_init(&attributes);
    sigset_t none, all;
    ::sigemptyset(&none);
    ::sigfillset(&all);
    ::posix_spawnattr_setsigmask(&attributes, &none);
    ::posix_spawnattr_setsigdefault(&attributes, &all);
    ::posix_spawnattr_setpgroup(&attributes, 0);  // a Ctrl-C at the terminal is for the driver
    ::posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETPGROUP);
    Environment environment({});
    int error =
        ::posix_spawnp(&child.pid, argv[0], &actions, &attributes, argv.data(), environment.data());
    ::posix_spawn_file_actions_destroy(&actions);
    ::posix_spawnattr_destroy(&attributes);
    if (error != 0) {
      child.pid = 0;
      throw Error(ErrorKind::kIo,
                  str("starting '", words[0], "' to reach host ", host, ": ", errno_text(error)));
    }
    child.pidfd = UniqueFd(static_cast<int>(::syscall(SYS_pidfd_open, child.pid, 0)));
    if (!child.pidfd) throw_errno("pidfd_open");
    theirs.reset();
    // It is shorter than what a pipe takes without being read.
    std::string text = order.text();
    if (::write(ours.get(), text.data(), text.size()) != static_cast<ssize_t>(text.size())) {
      throw_errno(str("telling the agent of host ", host, " where the driver is"));
    }
    child.watch = std::make_unique<boost::asio::posix::stream_descriptor>(
        loop_.context, ::fcntl(child.pidfd.get(), F_DUPFD_CLOEXEC, 0));
    child.watch->async_wait(boost::asio::posix::stream_descriptor::wait_read,
                            [this, host](boost::system::error_code failed) {
                              std::lock_guard lock(loop_.mutex);
                              if (!failed) on_ended(host);
                            });
  }

  void on_ended(const std::string& host) {
    Child& child = children_.at(host);
    int status = 0;
    if (::waitpid(std::exchange(child.pid, 0), &status, 0) < 0) return;
    child.watch.reset();
    std::ifstream in(child.log);
    std::string said((std::istreambuf_iterator<char>(in)), {});
    if (said.size() > 2000) said.erase(0, said.size() - 2000);
    while (!said.empty() && said.back() == '\n') said.pop_back();
    ProcessExit exit;
    exit.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
    exit.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
    on_failed_(host, str("the command that starts its agent ", exit.describe(),
                         said.empty() ? "" : ". It said:\n" + said));
  }

  EventLoop& loop_;
  const SourceFiles files_;
  const std::vector<std::string> hosts_;
  const std::string command_;
  std::string program_;
  std::map<std::string, Child> children_;
  OnFailed on_failed_;
};

}  // namespace

std::unique_ptr<NodeSource> make_hosts_source(EventLoop& loop, ClusterOptions& options,
                                              const SourceFiles& files) {
  return std::make_unique<HostsSource>(loop, options, files);
}

}  // namespace manta
