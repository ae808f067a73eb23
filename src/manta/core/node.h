#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "manta/core/placement.h"
#include "manta/core/resources.h"

namespace manta {

/// Identifies a node for the whole run; never used twice. 0 is the driver's own.
using NodeId = uint32_t;

enum class NodeState : uint8_t {
  kAlive,
  kDraining,  ///< It will be taken away, and gets nothing new.
};

/// A machine of the run.
struct Node {
  NodeId id = 0;
  std::string host;     ///< Its own name for itself.
  std::string address;  ///< At which other nodes reach it; empty if there are no others.
  Resources total = {.cpus = 0};
  Resources free = {.cpus = 0};
  /// The declared labels (see InitOptions::labels), and three that every node has: "node" (its
  /// `host`), "id" (its `id`) and "role" ("driver" for the driver's own node, "worker" for others).
  Labels labels = {};
  NodeState state = NodeState::kAlive;
  template <class Archive>
  void serialize(Archive& archive) {
    archive(id, host, address, total, free, labels, state);
  }
};

/// The nodes of the run, the driver's first. On one machine there is one.
std::vector<Node> nodes();

}  // namespace manta
