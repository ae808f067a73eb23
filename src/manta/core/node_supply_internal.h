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
  std::string name;  ///< Of one that was there before; empty for any number of new ones.
  size_t count = 0;
  Resources total = {.cpus = 0};  ///< What each has, as far as that is known.
  Labels labels = {};             ///< What each certainly has.
};

/// What may change about the nodes of a run.
struct SupplyState {
  std::vector<PossibleNodes> coming = {};    ///< Asked for, and not there yet.
  std::vector<PossibleNodes> possible = {};  ///< Could be asked for.
  /// Could be asked for in addition once those nodes have gone that drain or are given back.
  std::vector<PossibleNodes> replacements = {};
  size_t least = 0;  ///< Nodes beside the driver's that there should be: lost ones are replaced.
  /// Nodes that nobody has used for so long are given back, down to `least`. Zero: never.
  std::chrono::milliseconds idle_after{0};
  std::chrono::milliseconds patience{0};  ///< For a node that something needs which none can hold.
  std::string source = {};                ///< For messages: "slurm".
  std::string trouble = {};  ///< Likewise: which nodes were asked for and did not come, if any.
};

/// Of an engine whose nodes may come and go. All calls come with the loop's mutex held.
class NodeSupply {
 public:
  virtual ~NodeSupply() = default;
  virtual SupplyState state() const = 0;
  /// Asks for `count` of the possible nodes of that name. on_node_joined follows for each that
  /// comes.
  virtual void want_nodes(const std::string& name, size_t count) = 0;
  /// Gives a node back: its processes end. on_node_left follows.
  virtual void release_node(NodeId node) = 0;
  /// How many of those that were asked for under each name, and are not there yet, nothing needs.
  /// It withdraws those for which that has been so for a while.
  virtual void spare_nodes(const std::map<std::string, size_t>& spare) = 0;
};

// ---- The policy: which nodes are asked for, and which are given back

struct NodePlanState {
  struct Present {
    NodeId id = 0;
    Room room;  ///< What is free of it.
    Labels labels;
    bool idle_long = false;  ///< Nobody has used it for SupplyState::idle_after.
  };
  struct Waiting {
    std::vector<Request> asked;  ///< One, or a gang.
    Placement placement = Placement::kPack;
  };
  std::vector<Present> nodes;    ///< Those that take work, the driver's (0) included.
  std::vector<Waiting> waiting;  ///< That have no room at the moment, the oldest first.
  SupplyState supply;
};

struct NodePlan {
  std::map<std::string, size_t> bring;  ///< By name.
  std::vector<NodeId> release;
  std::map<std::string, size_t> spare = {};  ///< Of those that are coming, by name.
  bool operator==(const NodePlan&) const = default;
};

/// As many nodes as what waits needs beyond those that are coming, and as are missing of
/// SupplyState::least. What cannot be helped by any possible node is left out. Beyond the least,
/// nodes are spared that are coming and that nothing waits for, and then those given back that were
/// idle for long. Does no I/O.
NodePlan plan_nodes(const NodePlanState& state);

/// Adds to `used` what must stay so that no value is lost, whatever else is given back: one of the
/// nodes that have it, for each value; none for one that a used node has. Does no I/O.
void keep_values(const std::vector<std::vector<NodeId>>& holders, std::set<NodeId>& used);

/// Whether all of it had a place if the possible nodes were there, and all were idle.
bool could_come(const SupplyState& supply, std::vector<PlaceableNode> idle_nodes,
                const std::vector<Request>& asked, Placement placement);

}  // namespace manta
