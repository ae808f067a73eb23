#pragma once

#include <chrono>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "manta/core/engine_internal.h"
#include "manta/core/gang_placement_internal.h"

namespace manta {

/// Nodes that an engine could get.
struct PossibleNodes {
  std::string name;  ///< The name of a node that was there before; empty for any number of new
                     ///< nodes.
  size_t count = 0;
  Resources total = {.cpus = 0};  ///< What each node has, if known.
  Labels labels = {};             ///< The labels that each node certainly has.
};

/// What may change about the nodes of a run.
struct SupplyState {
  std::vector<PossibleNodes> coming = {};    ///< Nodes that were asked for, and are not there yet.
  std::vector<PossibleNodes> possible = {};  ///< Nodes that could be asked for.
  /// Nodes that could be asked for in addition, once the nodes that drain or are given back have
  /// gone.
  std::vector<PossibleNodes> replacements = {};
  size_t least = 0;  ///< The number of nodes besides the driver's that there should be: lost nodes
                     ///< are replaced.
  /// Nodes that have not been used for this long are given back, down to `least`. Zero: never.
  std::chrono::milliseconds idle_after{0};
  std::chrono::milliseconds patience{0};  ///< How long something that fits on no node waits for a
                                          ///< new node.
  std::string source = {};                ///< For messages: "slurm".
  std::string trouble = {};  ///< For messages: which nodes were asked for and did not come, if any.
};

/// The part of an engine whose nodes may come and go. All calls are made with the loop's mutex
/// held.
class NodeSupply {
 public:
  virtual ~NodeSupply() = default;
  virtual SupplyState state() const = 0;
  /// Asks for `count` of the possible nodes of that name. on_node_joined follows for each that
  /// comes.
  virtual void want_nodes(const std::string& name, size_t count) = 0;
  /// Gives a node back: its processes end. on_node_left follows.
  virtual void release_node(NodeId node) = 0;
  /// Tells the engine how many of the nodes that were asked for under each name, and are not there
  /// yet, are not needed. The engine withdraws nodes that have not been needed for a while.
  virtual void spare_nodes(const std::map<std::string, size_t>& spare) = 0;
};

// ---- The policy: which nodes are asked for, and which are given back

struct NodePlanState {
  struct Present {
    NodeId id = 0;
    Room room;  ///< The free resources of the node.
    Labels labels;
    bool idle_long = false;  ///< Not used for SupplyState::idle_after.
  };
  struct Waiting {
    std::vector<Request> asked;  ///< The request of one process, or those of a gang.
    Placement placement = Placement::kPack;
  };
  std::vector<Present> nodes;    ///< The nodes that take work, including the driver's (0).
  std::vector<Waiting> waiting;  ///< Requests that have no room at the moment, the oldest first.
  SupplyState supply;
};

struct NodePlan {
  std::map<std::string, size_t> bring;  ///< By name.
  std::vector<NodeId> release;
  std::map<std::string, size_t> spare = {};  ///< Nodes that are coming and not needed, by name.
  bool operator==(const NodePlan&) const = default;
};

/// Plans to bring the nodes that waiting requests need beyond those that are coming, and those that
/// are missing from SupplyState::least. Requests that no possible node could serve are left out.
/// Beyond `least`, it first spares nodes that are coming and that nothing waits for, and then gives
/// back nodes that were idle for long. Does no I/O.
NodePlan plan_nodes(const NodePlanState& state);

/// Adds to `used` the nodes that must stay so that no value is lost, whichever others are given
/// back: for each value that no used node has, one of the nodes that have it. Does no I/O.
void keep_values(const std::vector<std::vector<NodeId>>& holders, std::set<NodeId>& used);

/// Whether all requests would have a place if the possible nodes were there, and all nodes were
/// idle.
bool could_come(const SupplyState& supply, std::vector<PlaceableNode> idle_nodes,
                const std::vector<Request>& asked, Placement placement);

}  // namespace manta
