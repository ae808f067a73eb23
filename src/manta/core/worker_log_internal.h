#pragma once

#include <boost/asio/posix/stream_descriptor.hpp>
#include <map>
#include <string>

#include "manta/io/event_loop_internal.h"

namespace manta {

class WorkerLogs;

/// One worker's log file, followed: what is new in it is shown at the driver, each line behind the
/// worker's name.
class WorkerLog {
 public:
  WorkerLog(WorkerLogs& logs, std::string name, std::string path);
  ~WorkerLog();
  WorkerLog(const WorkerLog&) = delete;

  const std::string& path() const { return path_; }
  /// Shows the lines that are new. `last`: also one that has no end yet.
  void show(bool last = false);
  /// Its last lines, for an error message.
  std::string tail() const;

 private:
  WorkerLogs& logs_;
  const std::string name_;
  const std::string path_;
  int watch_ = -1;
  long shown_ = 0;
  std::string partial_;
};

/// Watches all log files of a run.
class WorkerLogs {
 public:
  /// `show`: whether anything is shown at all.
  WorkerLogs(EventLoop& loop, bool show);
  void stop();

 private:
  friend class WorkerLog;
  void wait();

  EventLoop& loop_;
  boost::asio::posix::stream_descriptor events_;
  const bool show_;
  std::map<int, WorkerLog*> watched_;
};

}  // namespace manta
