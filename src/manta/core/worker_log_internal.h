#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <climits>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "manta/base/status_line_internal.h"
#include "manta/core/repeated_lines_internal.h"
#include "manta/io/event_loop_internal.h"

namespace manta {

class WorkerLogs;

/// One worker's log file, followed: what is new in it is shown at the driver, each line behind the
/// worker's name. What the driver's standard error does not take stays in the file until it does.
/// A file may have several in turn, as that of a rank that is started again: each shows the part
/// that was written while it was the latest.
class WorkerLog {
 public:
  WorkerLog(WorkerLogs& logs, std::string name, std::string path);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;

  const std::string& path() const { return path_; }
  /// Shows some of what is new, never waiting. True if there is more.
  bool show(bool last = false);
  /// Its last lines, for an error message; before `end`, unless that is -1.
  std::string tail(int64_t end = -1) const;

 private:
  void read_lines(bool last);
  void put_line(std::string_view line);

  WorkerLogs& logs_;
  const std::string name_;
  const std::string path_;
  int watch_ = -1;
  long begin_ = 0;       // an earlier run may have written to the same file
  long end_ = LONG_MAX;  // where a later one's part of the same file begins
  long shown_ = 0;
  std::string partial_;  // a line that has no end yet
  std::string pending_;  // lines that have yet to be written
};

/// Watches all log files of a run.
class WorkerLogs {
 public:
  /// Takes some or all of the lines, removes them, and never waits. True if none is left.
  using Write = std::function<bool(std::string& lines)>;

  /// `show`: whether anything is shown at all. `fold_repeated`: see RepeatedLines. `write`: where
  /// to; by default this process's standard error.
  WorkerLogs(EventLoop& loop, bool show, bool fold_repeated, Write write = write_lines);
  /// Shows lines that somebody else has read.
  void show_lines(const std::string& lines);
  /// Shows what is left of a worker that has ended.
  void finish(std::unique_ptr<WorkerLog> log);
  /// Shows what is left of all, as far as standard error takes it within a second.
  void stop();

 private:
  friend class WorkerLog;
  void wait();
  void show_later();
  void count_later();
  bool write_counts(bool last = false);

  EventLoop& loop_;
  boost::asio::posix::stream_descriptor events_;
  const bool show_;
  const bool fold_repeated_;
  RepeatedLines repeated_;
  std::string counts_;  // lines of it that have yet to be written
  const Write write_;
  std::multimap<int, WorkerLog*> watched_;
  std::multimap<std::string, WorkerLog*> by_path_;
  std::set<WorkerLog*> behind_;
  std::vector<std::unique_ptr<WorkerLog>> finishing_;
  std::unique_ptr<EventLoop::Timer> later_;
  std::unique_ptr<EventLoop::Timer> counting_;
};

}  // namespace manta
