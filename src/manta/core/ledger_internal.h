#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "manta/core/gang_placement_internal.h"
#include "manta/core/node_ledger_internal.h"

namespace manta {

/// Records which holder has which resources of which node. It is the only place that counts the
/// run's resources and decides on which node a process is placed. One node always grants the whole
/// of a request. Does no I/O. Not thread-safe.
class Ledger {
 public:
  struct NodeTotal {
    NodeId id = 0;
    std::string name;
    Resources total;
    Labels labels = {};
  };

  /// The id must be new: a node that left and comes back gets another id.
  void add_node(const NodeTotal& node);
  /// The node gets nothing new; its grants stay.
  void drain_node(NodeId node);
  /// The node's grants are gone with it; releasing them later does nothing.
  void remove_node(NodeId node);

  /// The total of all nodes. No process can have more than one node has: see `why_impossible`.
  Resources total() const;
  Resources available() const;
  /// What is free on one node; nothing if the node is not there.
  Resources available(NodeId node) const;

  /// Takes what a single process asks for from one node that has it free. Does not use nodes that
  /// could serve one of `reserved`. `last`: the node that granted the same request just before, if
  /// nothing has been released since; it saves a search.
  std::optional<Grant> acquire(const Request& asked, Placement placement, uint64_t holder,
                               const std::vector<const Request*>& reserved = {},
                               std::optional<NodeId> last = {});
  /// Grants all requests or none; in the order of `asked`. If the requests are equal, or if the
  /// placement is a strict one, it finds a place whenever there is one. For different requests that
  /// are packed or spread, it tries the large ones first and may miss a place that only fits
  /// exactly.
  std::optional<std::vector<Grant>> acquire_gang(const std::vector<Request>& asked,
                                                 Placement placement, uint64_t holder);
  void release(const Grant& grant);
  void pause_cpus(const Grant& grant);   ///< See NodeLedger.
  void resume_cpus(const Grant& grant);  ///< See NodeLedger.

  /// Empty if the nodes (without those that drain) could provide it when idle. Otherwise the reason
  /// why they could not, e.g. "asks for 6 CPU on one node; the largest node has 4 (n1, n2)".
  std::string why_impossible(const Request& asked) const;
  std::string why_impossible(const std::vector<Request>& asked, Placement placement) const;
  /// The nodes as if all were idle, without those that drain, to try a placement on.
  std::vector<PlaceableNode> idle_nodes() const { return placeable(true); }
  /// Whether `why_impossible` would be empty; cheap.
  bool is_possible(const Request& asked) const;

  using DescribeHolder = NodeLedger::DescribeHolder;
  /// One sentence: what is missing, where, and who holds it. Empty if the request could be granted
  /// now.
  std::string why_waits(const Request& asked, const DescribeHolder& describe) const;
  std::string why_waits(const std::vector<Request>& asked, Placement placement,
                        const DescribeHolder& describe) const;

 private:
  struct Node {
    NodeTotal info;
    bool draining = false;
    NodeLedger ledger;
  };
  Node* find(NodeId id);
  const Node* find(NodeId id) const;
  static bool could_ever(const Node& node, const Request& asked);
  static bool is_reserved(const Node& node, const std::vector<const Request*>& reserved);
  Node* choose(const Request& asked, Placement placement,
               const std::vector<const Request*>& reserved);
  /// The nodes as they are, or as they would be if all were idle; without those that drain.
  std::vector<PlaceableNode> placeable(bool idle) const;

  std::vector<Node> nodes_;
  std::unordered_map<NodeId, size_t> place_;  // in `nodes_`
};

}  // namespace manta
