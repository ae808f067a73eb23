#pragma once

#include <sys/types.h>

#include <chrono>
#include <string>
#include <vector>

#include "manta/base/eventually_internal.h"

namespace manta {

/// A program that a test starts, talks to and kills. Killed at the latest by the destructor.
class Program {
 public:
  /// `arguments` after the program's path; `temporary_folder` becomes its TMPDIR; own process
  /// group.
  Program(const std::string& path, std::vector<std::string> arguments,
          const std::string& temporary_folder);
  ~Program();
  Program(const Program&) = delete;

  pid_t pid() const { return pid_; }
  /// The next line that it prints; empty at the end of its output.
  std::string read_line();
  void write_line(const std::string& line);
  /// Everything that it writes to standard error until it closes it.
  std::string read_errors();
  void send(int signal);
  /// Sends a signal to its whole process group, as a terminal does.
  void send_group(int signal);
  /// Waits for its end and returns the status as waitpid gives it.
  int wait();

 private:
  pid_t pid_ = 0;
  int in_ = -1, out_ = -1, errors_ = -1;
  std::string buffer_;
  bool waited_ = false;
};

/// Every process below `root`, and what was started below it (also if it has been given to init
/// since).
std::vector<pid_t> descendants(pid_t root);
bool is_running(pid_t pid);  ///< Zombies do not count.
int count_open_files(pid_t pid);
int count_threads_of(pid_t pid);

/// The path of a program that is built from tests/programs/.
std::string test_program(const std::string& name);

}  // namespace manta
