#pragma once

#include <fcntl.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <fstream>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "manta/base/eventually_internal.h"

namespace manta {

/// For tests: a command with its output in a file. The destructor kills it, if it has not ended.
class Running {
 public:
  Running(const std::vector<std::string>& words,
          const std::map<std::string, std::string>& variables, std::string output)
      : output_(std::move(output)) {
    std::vector<std::string> all{"env"};
    for (const auto& [name, value] : variables) all.push_back(name + "=" + value);
    all.insert(all.end(), words.begin(), words.end());
    std::vector<char*> argv;
    for (auto& word : all) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ == 0) {
      int out = ::open(output_.c_str(), O_WRONLY | O_CREAT | O_TRUNC, 0600);
      ::dup2(out, 1);
      ::dup2(out, 2);
      ::execvp(argv[0], argv.data());
      ::_exit(127);
    }
  }
  ~Running() {
    if (pid_ <= 0) return;
    ::kill(pid_, SIGKILL);
    ::waitpid(pid_, nullptr, 0);
  }

  pid_t pid() const { return pid_; }
  std::string said() const {
    std::ifstream in(output_);
    return {std::istreambuf_iterator<char>(in), {}};
  }
  bool says(const std::string& text) const {
    return eventually([&] { return said().find(text) != std::string::npos || has_ended(); }) &&
           said().find(text) != std::string::npos;
  }
  /// Its status, once it has ended.
  std::optional<int> exit_code() {
    std::optional<int> code;
    eventually([&] {
      int status = 0;
      if (code) return true;
      if (::waitpid(pid_, &status, WNOHANG) != pid_) return false;
      pid_ = 0;
      code = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
      return true;
    });
    return code;
  }

  bool has_ended() const {
    siginfo_t info{};
    return ::waitid(P_PID, static_cast<id_t>(pid_), &info, WEXITED | WNOHANG | WNOWAIT) != 0 ||
           info.si_pid != 0;
  }

 private:
  std::string output_;
  pid_t pid_ = 0;
};

}  // namespace manta
