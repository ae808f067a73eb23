#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>

#include "manta/core/engine_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta {

/// How many bytes of the processes' output may wait until the driver takes them; the rest stays in
/// their files.
inline constexpr size_t kMostPendingOutput = 1 << 20;

/// The agent's side of log files that the user named, which are on the driver's machine. It looks
/// into the agent's own files every 100 ms, and sends the driver the new bytes in them, unchanged,
/// as AgentLog. Everything runs with the loop's mutex held.
class LogStreams {
 public:
  LogStreams(EventLoop& loop, std::shared_ptr<AsyncChannel> driver)
      : loop_(loop), driver_(std::move(driver)) {}

  /// The file may not be there yet.
  void follow(ProcessId process, std::string path);
  bool follows(ProcessId process) const { return streams_.contains(process); }
  /// Call it if the process was not started.
  void forget(ProcessId process) { streams_.erase(process); }
  /// Call it when the process has ended: calls `then` when all of its output has been given to the
  /// driver's connection, or at once if the process is not followed. (If the driver takes nothing,
  /// the agent ends for other reasons.)
  void finish(ProcessId process, std::function<void()> then);
  /// The same for all processes, with what they have written until now.
  void finish_all(std::function<void()> then);

 private:
  struct Stream {
    std::string path;
    int64_t sent = 0;
    int64_t end = -1;  // where to stop; -1: it still grows
    std::function<void()> then;
  };
  void look();
  void look_later();
  bool send(ProcessId process, Stream& stream);

  EventLoop& loop_;
  std::shared_ptr<AsyncChannel> driver_;
  std::map<ProcessId, Stream> streams_;
  ProcessId next_ = 0;  // whose turn it is
  std::function<void()> all_finished_;
  bool waits_for_driver_ = false;
  std::unique_ptr<EventLoop::Timer> timer_;
};

}  // namespace manta
