#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "manta/core/node_memory_internal.h"
#include "manta/io/async_channel_internal.h"

namespace manta {

/// Passes frames on between a process, over a Unix socket, and the hub, over TLS. It replaces
/// descriptors of the process's memory by keys, under which the node keeps the memory, and keys by
/// descriptors on the way back. It does not look into messages otherwise. A process that sends more
/// than the hub takes has to wait: the pump reads nothing from it while kMostUnsent bytes are on
/// their way. Everything runs with the loop's mutex held.
class FramePump : public std::enable_shared_from_this<FramePump> {
 public:
  static constexpr size_t kMostUnsent = 1 << 20;

  FramePump(std::shared_ptr<NodeMemory> memory, NodeId node, std::shared_ptr<AsyncChannel> process)
      : memory_(std::move(memory)), node_(node), process_(std::move(process)) {}

  /// Begins to read from the process. `ended` is called once, when either side has closed.
  void start(std::function<void()> ended);
  /// Connects the pump to the hub. Frames that have come until then are sent first, after those
  /// that `hub` has to send already.
  void connect(std::shared_ptr<AsyncChannel> hub);
  /// Call it when the process has ended: passes on its last frames, and closes.
  void finish();
  void close();

 private:
  struct Waiting {
    uint16_t type;
    std::string body;
  };
  void to_hub(Frame& frame);
  void go_on_when_sent();
  void to_process(Frame& frame);

  std::shared_ptr<NodeMemory> memory_;
  NodeId node_;
  std::shared_ptr<AsyncChannel> process_;
  std::shared_ptr<AsyncChannel> hub_;  // null until it is connected
  std::vector<Waiting> waiting_;
  size_t waiting_bytes_ = 0;
  bool process_ended_ = false;
  std::function<void()> ended_;
};

}  // namespace manta
