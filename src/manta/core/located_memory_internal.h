#pragma once

#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "manta/core/archive.h"
#include "manta/core/node.h"

namespace manta {

/// What moves memory between the nodes of a run, and frees it there. All calls and callbacks come
/// with the loop's mutex held.
class MemoryTransfers {
 public:
  virtual ~MemoryTransfers() = default;
  /// Keeps memory of this node for others to fetch; its number.
  virtual uint64_t keep(std::shared_ptr<internal::SharedMemory> memory) = 0;
  /// What this node keeps under that number; null if nothing.
  virtual std::shared_ptr<internal::SharedMemory> find(uint64_t number) = 0;
  /// Has node `to` fetch it from node `from`. `done` gets the reason if it fails, else an empty
  /// string; never before this returns.
  virtual void fetch(const internal::MemoryKey& key, NodeId from, NodeId to,
                     std::function<void(const std::string& why)> done) = 0;
  /// The nodes need it no longer.
  virtual void drop(uint64_t number, const std::set<NodeId>& nodes) = 0;
};

}  // namespace manta

namespace manta::internal {

/// Memory of a value, as the hub knows it: on which nodes it is. Freed on all of them with its last
/// holder in the hub. A node fetches it at most once. Not thread-safe: the hub's lock guards it.
class LocatedMemory : public std::enable_shared_from_this<LocatedMemory> {
 public:
  /// Kept by another node.
  explicit LocatedMemory(const MemoryKey& key) : key_(key), nodes_{key.node} {}
  /// Of this node.
  explicit LocatedMemory(std::shared_ptr<SharedMemory> memory);
  ~LocatedMemory();

  size_t size() const { return key_.size; }
  /// Gives it a number, if it has none.
  const MemoryKey& key();
  std::shared_ptr<SharedMemory> here() const { return here_; }
  bool is_on(NodeId node) const { return nodes_.contains(node); }
  const std::set<NodeId>& nodes() const { return nodes_; }
  /// Why there is no copy any more; empty while there is one.
  const std::string& lost() const { return lost_; }

  void set_transfers(MemoryTransfers* transfers) { transfers_ = transfers; }
  using Done = std::function<void(const std::string& why)>;
  /// Calls `done` once the node has it, or, with the reason, when no node that has it could send
  /// it. Requests of one node share one transfer.
  void fetch_to(NodeId node, Done done);
  /// A node has gone.
  void forget_node(NodeId node, const std::string& why);

 private:
  struct Fetch {
    std::set<NodeId> tried;
    std::vector<Done> done;
  };
  void start_fetch(NodeId to);
  void finish_fetch(NodeId to, const std::string& why);

  MemoryTransfers* transfers_ = nullptr;
  MemoryKey key_;
  std::shared_ptr<SharedMemory> here_;
  std::set<NodeId> nodes_;
  std::map<NodeId, Fetch> fetches_;  // by the node that fetches it
  std::string lost_;
};

}  // namespace manta::internal
