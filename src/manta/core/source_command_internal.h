#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "manta/base/deadline.h"
#include "manta/base/names_internal.h"
#include "manta/io/event_loop_internal.h"
#include "manta/io/unique_fd.h"

namespace manta {

/// A command that a node source runs: ssh, srun, a Python program. It has its own process group,
/// because a Ctrl-C at the terminal is for the driver. The destructor kills it if it has not ended.
/// Everything runs with the loop's mutex held.
class SourceCommand {
 public:
  struct Options {
    std::vector<std::string> words;
    std::string purpose;  ///< For messages: "to reach host n1".
    std::string log;  ///< File for what it prints; standard output too, unless `on_line` is set.
    std::vector<std::string> unset = {};  ///< Variables that it does not inherit.
    /// Receives each line of its standard output, without its end. Must not destroy the command.
    std::function<void(const std::string& line)> on_line = {};
  };
  /// Gets how it ended, and the end of its output: "exited with code 1. It said:\n...". Not called
  /// from within `finish`. It may destroy the command.
  using OnEnded = std::function<void(const std::string& how)>;

  /// Throws Error(kIo) if it cannot be started.
  SourceCommand(EventLoop& loop, Options options, OnEnded on_ended);
  ~SourceCommand();
  SourceCommand(const SourceCommand&) = delete;

  /// Writes to its standard input, as much as is taken without being read (100 KB at least), or
  /// throws Error(kIo). Does nothing if the command has ended.
  void say(const std::string& text);
  void close_input() { input_.reset(); }
  bool has_ended() const { return pid_ <= 0; }
  /// The last lines that it has printed to its log.
  std::string said() const;
  /// Waits for its end until the deadline. Then asks it to end with SIGTERM, and kills it a while
  /// later.
  void finish(Deadline deadline);
  /// Asks it to end at once, with SIGTERM.
  void ask_to_end();
  /// Does not wait: the command is asked to end after `grace`, and killed a while later. `on_ended`
  /// is not called.
  void end_after(std::chrono::milliseconds grace);

 private:
  void spawn();
  void watch();
  void read_lines();
  bool await_end(Deadline deadline) const;
  void on_end();

  EventLoop& loop_;
  Options options_;
  OnEnded on_ended_;
  std::shared_ptr<bool> alive_ = std::make_shared<bool>(true);
  pid_t pid_ = 0;
  UniqueFd pidfd_;
  UniqueFd input_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> watch_;
  std::unique_ptr<boost::asio::posix::stream_descriptor> output_;
  std::unique_ptr<EventLoop::Timer> end_timer_;
  std::string partial_;
  char buffer_[4096];
};

/// Commands that are to end; only the end of the run waits for them.
class EndingCommands {
 public:
  /// See SourceCommand::end_after. `command` may be null.
  void add(std::unique_ptr<SourceCommand> command, std::chrono::milliseconds grace);
  /// Asks all of them to end at once, and waits: see SourceCommand::finish.
  void finish(Deadline deadline);

 private:
  std::vector<std::unique_ptr<SourceCommand>> commands_;
};

}  // namespace manta
