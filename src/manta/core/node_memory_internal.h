#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <unordered_map>
#include <vector>

#include "manta/core/archive.h"
#include "manta/core/node.h"
#include "manta/io/async_channel_internal.h"
#include "manta/io/tls_internal.h"

namespace manta {

/// The memory that a node keeps for the run, by number. Thread-safe.
class NodeMemory {
 public:
  explicit NodeMemory(NodeId node) : next_(static_cast<uint64_t>(node) << 40 | 1) {}

  /// Keeps memory under a new number.
  uint64_t keep(std::shared_ptr<SharedMemory> memory);
  /// Keeps memory under the number that another node has given it.
  void put(uint64_t number, std::shared_ptr<SharedMemory> memory);
  std::shared_ptr<SharedMemory> find(uint64_t number) const;
  void drop(uint64_t number);

 private:
  mutable std::mutex mutex_;
  uint64_t next_;
  std::unordered_map<uint64_t, std::shared_ptr<SharedMemory>> kept_;
};

/// Moves memory between nodes, each piece on its own connection and its own thread, so that the
/// caller goes on meanwhile. It gives up a node that moves nothing for 30 seconds. A node that
/// fetches and serves needs two movers: its fetches, which wait for another node, must not make
/// that node wait.
///
/// Every connection begins with TLS, by which both ends prove that they hold the run's key. If the
/// run does not encrypt objects, the bytes follow unencrypted, with their checksum, on the same
/// connection. Nothing else is sent on it, in either direction.
class MemoryMover {
 public:
  /// Moves at most `most_threads` pieces at a time; others wait for their turn.
  MemoryMover(const TlsKey& key, size_t most_threads, bool encrypt = true)
      : key_(key), most_threads_(most_threads), encrypt_(encrypt) {}
  /// Gives up moves that have not begun, and waits for the others.
  ~MemoryMover();

  /// `done` is called on a thread of the mover, with the memory, or with null and the reason; on
  /// the calling thread if not even one thread can be started.
  using Done = std::function<void(std::shared_ptr<SharedMemory>, const std::string& why)>;
  void fetch(const std::string& address, uint64_t number, uint64_t size, Done done);
  /// Answers the ReadMemory of another node, which is the first frame of that connection. Throws
  /// Error if the memory is not there, or if the request disagrees with the run on encryption. Call
  /// it with the loop's mutex held.
  void serve(const NodeMemory& memory, const std::shared_ptr<AsyncChannel>& channel, Frame& first);

 private:
  void add(std::function<void()> job);
  void run();

  const TlsKey key_;
  const size_t most_threads_;
  const bool encrypt_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> jobs_;
  size_t idle_ = 0;
  bool stopping_ = false;
  std::vector<std::thread> threads_;
};

inline constexpr size_t kMostFetches = 4;
inline constexpr size_t kMostServed = 64;

}  // namespace manta
