#include <algorithm>

#include "manta/core/node_supply_internal.h"

namespace manta {
namespace {

// The rooms of nodes that are there, and of nodes that are not there yet.
class Planner {
 public:
  explicit Planner(const NodePlanState& state) : state_(state) {
    for (const auto& node : state.nodes) add({node.room, &node.labels, 0});
    for (const auto& each : state.supply.coming) {
      for (size_t i = 0; i < each.count; ++i) add({Room(each.total), &each.labels, 0});
    }
    for (const auto& each : state.supply.possible) left_.push_back(each.count);
  }

  // Places it with as few of the possible nodes as it needs; with none if even all of them are not
  // enough.
  void place(const NodePlanState::Waiting& waiting) {
    if (take(waiting)) return;
    std::vector<size_t> added;  // which of the possible
    size_t before = nodes_.size();
    for (size_t kind = 0; kind < left_.size(); ++kind) {
      const PossibleNodes& possible = state_.supply.possible[kind];
      if (!helps(possible, waiting)) continue;
      for (size_t i = 0; i < std::min(left_[kind], waiting.asked.size()); ++i) {
        add({Room(possible.total), &possible.labels, 0});
        added.push_back(kind);
        if (!take(waiting)) continue;
        for (size_t each : added) {
          --left_[each];
          ++plan_.bring[state_.supply.possible[each].name];
        }
        return;
      }
    }
    nodes_.erase(nodes_.begin() + static_cast<std::ptrdiff_t>(before), nodes_.end());
  }

  NodePlan finish() {
    size_t workers = 0;
    for (const auto& node : state_.nodes) workers += node.id != 0;
    for (const auto& each : state_.supply.coming) workers += each.count;
    for (const auto& [name, count] : plan_.bring) workers += count;
    for (size_t kind = 0; kind < left_.size() && workers < state_.supply.least; ++kind) {
      size_t more = std::min(left_[kind], state_.supply.least - workers);
      if (more > 0) plan_.bring[state_.supply.possible[kind].name] += more;
      workers += more;
    }
    size_t place = state_.nodes.size();
    for (const auto& each : state_.supply.coming) {
      for (size_t i = 0; i < each.count; ++i, ++place) {
        if (used_[place] || workers <= state_.supply.least) continue;
        ++plan_.spare[each.name];
        --workers;
      }
    }
    for (size_t i = 0; i < state_.nodes.size() && workers > state_.supply.least; ++i) {
      const auto& node = state_.nodes[i];
      if (node.id == 0 || !node.idle_long || used_[i]) continue;
      plan_.release.push_back(node.id);
      --workers;
    }
    return plan_;
  }

 private:
  void add(PlaceableNode node) {
    node.index = nodes_.size();
    nodes_.push_back(std::move(node));
    used_.resize(std::max(used_.size(), nodes_.size()));
  }

  static bool helps(const PossibleNodes& possible, const NodePlanState::Waiting& waiting) {
    return std::any_of(waiting.asked.begin(), waiting.asked.end(), [&](const Request& each) {
      return has_labels(possible.labels, each.labels) && Room(possible.total).has(each.resources);
    });
  }

  bool take(const NodePlanState::Waiting& waiting) {
    auto places = place_gang(nodes_, waiting.asked, waiting.placement);
    if (!places) return false;
    for (size_t i = 0; i < places->size(); ++i) {
      nodes_[(*places)[i]].room.take(waiting.asked[i].resources);
      used_[(*places)[i]] = true;
    }
    return true;
  }

  const NodePlanState& state_;
  std::vector<PlaceableNode> nodes_;
  std::vector<bool> used_;    // whether a waiting request uses the node
  std::vector<size_t> left_;  // of each kind of possible nodes
  NodePlan plan_;
};

}  // namespace

NodePlan plan_nodes(const NodePlanState& state) {
  Planner planner(state);
  for (const auto& each : state.waiting) planner.place(each);
  return planner.finish();
}

// Values that are on only one node come first: they leave no choice.
void keep_values(const std::vector<std::vector<NodeId>>& holders, std::set<NodeId>& used) {
  for (const auto& nodes : holders) {
    if (nodes.size() == 1) used.insert(nodes.front());
  }
  for (const auto& nodes : holders) {
    bool kept =
        std::any_of(nodes.begin(), nodes.end(), [&](NodeId id) { return used.contains(id); });
    if (!kept && !nodes.empty()) used.insert(nodes.front());
  }
}

bool could_come(const SupplyState& supply, std::vector<PlaceableNode> idle_nodes,
                const std::vector<Request>& asked, Placement placement) {
  for (const auto* nodes : {&supply.coming, &supply.possible, &supply.replacements}) {
    for (const PossibleNodes& each : *nodes) {
      for (size_t i = 0; i < std::min(each.count, asked.size()); ++i) {
        idle_nodes.push_back({Room(each.total), &each.labels, 0});
      }
    }
  }
  return place_gang(std::move(idle_nodes), asked, placement).has_value();
}

}  // namespace manta
