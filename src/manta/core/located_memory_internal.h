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

/// Moves memory between the nodes of a run, and frees it there. All calls and callbacks are made
/// with the loop's mutex held.
class MemoryTransfers {
 public:
  virtual ~MemoryTransfers() = default;
  /// Keeps memory of this node for others to fetch, and returns its number.
  virtual uint64_t keep(std::shared_ptr<internal::SharedMemory> memory) = 0;
  /// The memory that this node keeps under that number; null if none.
  virtual std::shared_ptr<internal::SharedMemory> find(uint64_t number) = 0;
  /// Has node `to` fetch the memory from node `from`. `done` gets the reason if that fails,
  /// otherwise an empty string; it is never called before this returns.
  virtual void fetch(const internal::MemoryKey& key, NodeId from, NodeId to,
                     std::function<void(const std::string& why)> done) = 0;
  /// Frees the memory on these nodes.
  virtual void drop(uint64_t number, const std::set<NodeId>& nodes) = 0;
};

}  // namespace manta

namespace manta::internal {

/// Memory of a value, as the hub knows it: it records on which nodes the memory is. All of them
/// free it when its last holder in the hub goes. A node fetches it at most once. Not thread-safe:
/// the hub's lock guards it.
class LocatedMemory : public std::enable_shared_from_this<LocatedMemory> {
 public:
  /// Memory that another node keeps.
  explicit LocatedMemory(const MemoryKey& key) : key_(key), nodes_{key.node} {}
  /// Memory of this node.
  explicit LocatedMemory(std::shared_ptr<SharedMemory> memory);
  ~LocatedMemory();

  size_t size() const { return key_.size; }
  /// Its key. Gives the memory a number, if it has none.
  const MemoryKey& key();
  std::shared_ptr<SharedMemory> here() const { return here_; }
  bool is_on(NodeId node) const { return nodes_.contains(node); }
  const std::set<NodeId>& nodes() const { return nodes_; }
  /// Why there is no copy any more; empty while there is one.
  const std::string& lost() const { return lost_; }

  void set_transfers(MemoryTransfers* transfers) { transfers_ = transfers; }
  using Done = std::function<void(const std::string& why)>;
  /// Calls `done` once the node has the memory, or, with the reason, when no node that has it could
  /// send it. Requests for the same node share one transfer.
  void fetch_to(NodeId node, Done done);
  /// Call it when a node has gone.
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
