#pragma once

#include <fcntl.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <string>
#include <vector>

#include "manta/base/error_internal.h"
#include "manta/base/temporary_folder_internal.h"
#include "manta/io/unique_fd.h"

namespace manta::train {

/// For tests: what a program prints. The test fails unless the program succeeds.
inline std::string output_of(const std::vector<std::string>& command) {
  std::string line;
  for (const std::string& word : command) line += str("'", word, "' ");
  FILE* pipe = ::popen(line.c_str(), "r");
  if (!pipe) throw_errno(line);
  std::string output;
  char buffer[4096];
  for (size_t n = 0; (n = std::fread(buffer, 1, sizeof(buffer), pipe)) > 0;)
    output.append(buffer, n);
  EXPECT_EQ(::pclose(pipe), 0) << line;
  return output;
}

/// For tests: a program that prints a line when it is ready, and ends when its standard input is
/// closed: with this object, or with this process.
class HelperProcess {
 public:
  explicit HelperProcess(std::vector<std::string> command) {
    int in[2], out[2];
    if (::pipe2(in, O_CLOEXEC) != 0 || ::pipe2(out, O_CLOEXEC) != 0) throw_errno("making pipes");
    UniqueFd child_in(in[0]), child_out(out[1]), from_child(out[0]);
    to_child_ = UniqueFd(in[1]);
    posix_spawn_file_actions_t actions;
    ::posix_spawn_file_actions_init(&actions);
    ::posix_spawn_file_actions_adddup2(&actions, child_in.get(), 0);
    ::posix_spawn_file_actions_adddup2(&actions, child_out.get(), 1);
    std::vector<char*> arguments;
    for (std::string& word : command) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    int error =
        ::posix_spawn(&pid_, command[0].c_str(), &actions, nullptr, arguments.data(), environ);
    ::posix_spawn_file_actions_destroy(&actions);
    if (error != 0)
      throw Error(ErrorKind::kIo, str("starting ", command[0], ": ", errno_text(error)));
    child_out.reset();
    char c = 0;
    while (::read(from_child.get(), &c, 1) == 1 && c != '\n') line_ += c;
    if (line_.empty()) throw Error(ErrorKind::kIo, str(command[1], " did not start"));
  }
  ~HelperProcess() {
    to_child_.reset();
    ::waitpid(pid_, nullptr, 0);
  }
  HelperProcess(const HelperProcess&) = delete;
  HelperProcess& operator=(const HelperProcess&) = delete;

  const std::string& line() const { return line_; }

 private:
  pid_t pid_ = -1;
  UniqueFd to_child_;
  std::string line_;
};

}  // namespace manta::train
