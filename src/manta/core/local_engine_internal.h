#pragma once

#include <memory>
#include <string>
#include <unordered_map>
#include <vector>

#include "manta/base/names_internal.h"
#include "manta/core/zygote_internal.h"
#include "manta/core/zygote_process_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta {

struct LocalEngineOptions {
  NodeInfo node;  ///< What the engine reports of this machine.
  RunAddress address;
  std::string session_folder;
  std::vector<std::string> argv;  ///< The zygote's arguments, so that `ps` shows to which program
                                  ///< it belongs.
  /// A zygote that was started before; null: the engine starts one.
  std::shared_ptr<ZygoteProcess> zygote = {};

  ZygoteOptions for_zygote() const;
};

/// This machine as a node: starts processes on it through a zygote. Uses an event loop.
class LocalEngine final : public Engine {
 public:
  /// Starts the zygote, if there is none, and does not wait for it.
  LocalEngine(EventLoop& loop, LocalEngineOptions options, EngineEvents& events);
  ~LocalEngine() override;

  std::vector<ProcessId> start(const std::vector<Placed>& gang) override;
  /// Like start, with numbers that the caller has chosen.
  void start_as(const std::vector<std::pair<ProcessId, ProcessSpec>>& gang);
  void kill(ProcessId process) override;
  MemoryTransfers* transfers() override { return nullptr; }
  NodeSupply* node_supply() override { return nullptr; }
  void shutdown() override;

 private:
  void start_zygote();
  void on_frame(Frame& frame);
  void on_zygote_gone(const std::string& why);

  EventLoop& loop_;
  LocalEngineOptions options_;
  EngineEvents& events_;
  std::shared_ptr<AsyncChannel> zygote_;
  std::shared_ptr<ZygoteProcess> process_;  // the last one
  std::unique_ptr<EventLoop::Timer> ready_timer_;
  uint64_t times_lost_ = 0;
  ProcessId next_process_ = 1;
  struct Process {
    bool detached = false;
    pid_t pid = 0;  // once it has been started
  };
  std::unordered_map<ProcessId, Process> processes_;  // asked for, and not known to have ended
};

}  // namespace manta
