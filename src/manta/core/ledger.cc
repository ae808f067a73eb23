#include <fmt/format.h>

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/ledger_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {

void Ledger::add_node(const NodeTotal& node) {
  MANTA_CHECK(!place_.contains(node.id), "a node's id was used twice");
  place_[node.id] = nodes_.size();
  nodes_.push_back({node, false, NodeLedger(node.total, node.id)});
}

void Ledger::drain_node(NodeId id) {
  if (Node* node = find(id)) node->draining = true;
}

void Ledger::remove_node(NodeId id) {
  auto found = place_.find(id);
  if (found == place_.end()) return;
  nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(found->second));
  place_.clear();
  for (size_t i = 0; i < nodes_.size(); ++i) place_[nodes_[i].info.id] = i;
}

Ledger::Node* Ledger::find(NodeId id) {
  return const_cast<Node*>(static_cast<const Ledger*>(this)->find(id));
}

const Ledger::Node* Ledger::find(NodeId id) const {
  if (!nodes_.empty() && nodes_.front().info.id == id) return &nodes_.front();
  auto found = place_.find(id);
  return found == place_.end() ? nullptr : &nodes_[found->second];
}

Resources Ledger::total() const {
  Resources sum{.cpus = 0};
  for (const Node& node : nodes_) add_resources(sum, node.info.total);
  return sum;
}

Resources Ledger::available() const {
  Resources sum{.cpus = 0};
  for (const Node& node : nodes_) {
    if (!node.draining) add_resources(sum, node.ledger.available());
  }
  return sum;
}

Resources Ledger::available(NodeId id) const {
  const Node* node = find(id);
  return node ? node->ledger.available() : Resources{.cpus = 0};
}

bool Ledger::could_ever(const Node& node, const Request& asked) {
  return !node.draining && has_labels(node.info.labels, asked.labels) &&
         manta::is_possible(asked.resources, node.info.total);
}

bool Ledger::is_possible(const Request& asked) const {
  return std::any_of(nodes_.begin(), nodes_.end(),
                     [&](const Node& node) { return could_ever(node, asked); });
}

bool Ledger::is_reserved(const Node& node, const std::vector<const Request*>& reserved) {
  return std::any_of(reserved.begin(), reserved.end(),
                     [&](const Request* other) { return could_ever(node, *other); });
}

// A single process. Packed: the node with the fewest free processors that has room.
Ledger::Node* Ledger::choose(const Request& asked, Placement placement,
                             const std::vector<const Request*>& reserved) {
  bool spread = placement == Placement::kSpread || placement == Placement::kStrictSpread;
  Node* best = nullptr;
  for (Node& node : nodes_) {
    if (node.draining || !has_labels(node.info.labels, asked.labels)) continue;
    double free = node.ledger.room().cpus();
    if (best) {
      double best_free = best->ledger.room().cpus();
      if (spread ? free <= best_free : free >= best_free) continue;
    }
    if (node.ledger.room().has(asked.resources) && !is_reserved(node, reserved)) best = &node;
  }
  return best;
}

std::optional<Grant> Ledger::acquire(const Request& asked, Placement placement, uint64_t holder,
                                     const std::vector<const Request*>& reserved,
                                     std::optional<NodeId> last) {
  if (nodes_.size() == 1) {
    Node& only = nodes_.front();
    if (only.draining || !has_labels(only.info.labels, asked.labels) ||
        is_reserved(only, reserved)) {
      return std::nullopt;
    }
    return only.ledger.acquire(asked.resources, holder);
  }
  // Packed: the node with the fewest free processors has even fewer now.
  bool packs = placement == Placement::kPack || placement == Placement::kStrictPack;
  Node* node = last && packs ? find(*last) : nullptr;
  if (!node || !node->ledger.room().has(asked.resources)) node = choose(asked, placement, reserved);
  if (!node) return std::nullopt;
  return node->ledger.acquire(asked.resources, holder);
}

std::vector<PlaceableNode> Ledger::placeable(bool idle) const {
  std::vector<PlaceableNode> result;
  for (const Node& node : nodes_) {
    if (node.draining) continue;
    result.push_back({idle ? Room(node.info.total) : node.ledger.room(), &node.info.labels,
                      static_cast<size_t>(&node - nodes_.data())});
  }
  return result;
}

std::optional<std::vector<Grant>> Ledger::acquire_gang(const std::vector<Request>& asked,
                                                       Placement placement, uint64_t holder) {
  auto places = place_gang(placeable(false), asked, placement);
  if (!places) return std::nullopt;
  std::vector<Grant> grants(asked.size());
  for (size_t i : by_size(asked)) {  // as they were placed
    auto grant = nodes_[(*places)[i]].ledger.acquire(asked[i].resources, holder);
    MANTA_CHECK(grant, "a node has no room for what was placed there");
    grants[i] = std::move(*grant);
  }
  return grants;
}

void Ledger::release(const Grant& grant) {
  if (Node* node = find(grant.node)) node->ledger.release(grant);
}
void Ledger::pause_cpus(const Grant& grant) {
  if (Node* node = find(grant.node)) node->ledger.pause_cpus(grant);
}
void Ledger::resume_cpus(const Grant& grant) {
  if (Node* node = find(grant.node)) node->ledger.resume_cpus(grant);
}

}  // namespace manta
