#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "manta/io/event_loop_internal.h"

namespace manta {

class WorkerLogs;

/// One worker's log file, followed: what is new in it is shown at the driver, each line behind the
/// worker's name. What the driver's standard error does not take stays in the file until it does.
class WorkerLog {
 public:
  WorkerLog(WorkerLogs& logs, std::string name, std::string path);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;

  const std::string& path() const { return path_; }
  /// Shows some of what is new, never waiting. True if there is more.
  bool show(bool last = false);
  /// Its last lines, for an error message.
  std::string tail() const;

 private:
  void read_lines(bool last);

  WorkerLogs& logs_;
  const std::string name_;
  const std::string path_;
  int watch_ = -1;
  long begin_ = 0;  // an earlier run may have written to the same file
  long shown_ = 0;
  std::string partial_;  // a line that has no end yet
  std::string pending_;  // lines that have yet to be written
};

/// Watches all log files of a run.
class WorkerLogs {
 public:
  /// `show`: whether anything is shown at all.
  WorkerLogs(EventLoop& loop, bool show);
  /// Shows what is left of a worker that has ended.
  void finish(std::unique_ptr<WorkerLog> log);
  /// Shows what is left of all, as far as standard error takes it within a second.
  void stop();

 private:
  friend class WorkerLog;
  void wait();
  void show_later();

  EventLoop& loop_;
  boost::asio::posix::stream_descriptor events_;
  const bool show_;
  std::map<int, WorkerLog*> watched_;
  std::set<WorkerLog*> behind_;
  std::vector<std::unique_ptr<WorkerLog>> finishing_;
  std::unique_ptr<EventLoop::Timer> later_;
};

}  // namespace manta
