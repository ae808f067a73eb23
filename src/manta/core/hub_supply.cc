// Nodes that come and go by need: what waits is demand, and what nobody uses is given back.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

constexpr std::chrono::milliseconds kPlanPause{250};
// More than that would not change what is asked for by much, and costs time.
constexpr size_t kMostPlanned = 256;

}  // namespace

bool Hub::may_come(const std::vector<Request>& asked, Placement placement,
                   bool with_replacements) const {
  if (!supply_) return false;
  SupplyState supply = supply_->state();
  if (!with_replacements) supply.replacements.clear();
  return could_come(supply, ledger_.idle_nodes(), asked, placement);
}

std::string Hub::what_may_come() const {
  SupplyState supply = supply_->state();
  size_t coming = 0, possible = 0, later = 0;
  for (const auto& each : supply.coming) coming += each.count;
  for (const auto& each : supply.possible) possible += each.count;
  for (const auto& each : supply.replacements) later += each.count;
  return str("waits for a node that ", supply.source, " may bring (", coming, " asked for, ",
             possible, " more possible",
             later == 0 ? "" : str(", ", later, " more when what drains has gone"), ")",
             supply.trouble.empty() ? "" : "; ", supply.trouble);
}

void Hub::plan_nodes_later() {
  if (!supply_ || stopping_) return;
  plan_timer_ = loop_.after(kPlanPause, [this] {
    if (stopping_) return;
    plan_nodes_now();
    plan_nodes_later();
  });
}

void Hub::plan_nodes_now() {
  NodePlanState state;
  state.supply = supply_->state();
  give_up_waiting_for_nodes(state.supply);
  bool gives_back = state.supply.idle_after.count() > 0;
  std::set<NodeId> used;
  if (gives_back) used = used_nodes();
  auto now = Clock::now();
  bool any_idle = false;
  for (auto& [id, node] : nodes_) {
    if (node.draining) continue;
    if (!gives_back || used.contains(id)) {
      node.idle_since.reset();
    } else if (!node.idle_since) {
      node.idle_since = now;
    }
    bool idle_long =
        gives_back && node.idle_since && now - *node.idle_since > state.supply.idle_after;
    any_idle = any_idle || (idle_long && id != 0);
    state.nodes.push_back({id, Room(ledger_.available(id)), node.info.labels, idle_long});
  }
  if (any_idle || !state.supply.possible.empty() || !state.supply.coming.empty()) {
    state.waiting = waiting_for_room();
  }
  NodePlan plan = plan_nodes(state);
  for (const auto& [name, count] : plan.bring) supply_->want_nodes(name, count);
  // What is beyond the plan may need them.
  size_t requests = 0;
  for (const auto& each : state.waiting) requests += each.asked.size();
  if (requests < kMostPlanned) supply_->spare_nodes(plan.spare);
  for (NodeId id : plan.release) {
    nodes_.at(id).draining = true;
    ledger_.drain_node(id);
    supply_->release_node(id);
  }
}

// Where something runs, or is kept that is on no node that stays.
std::set<NodeId> Hub::used_nodes() const {
  std::set<NodeId> used;
  for (const auto& [index, peer] : peers_) {
    if (peer->actor != 0 || !peer->assigned.empty() || peer->grant || !peer->channel) {
      used.insert(peer->node);
    }
  }
  std::vector<std::vector<NodeId>> holders;  // that do not drain
  for (const auto& [address, weak] : located_) {
    auto memory = weak.lock();
    if (!memory || memory->is_on(0)) continue;
    auto& nodes = holders.emplace_back();
    for (NodeId id : memory->nodes()) {
      auto node = nodes_.find(id);
      if (node != nodes_.end() && !node->second.draining) nodes.push_back(id);
    }
  }
  keep_values(holders, used);
  return used;
}

std::vector<NodePlanState::Waiting> Hub::waiting_for_room() {
  std::vector<NodePlanState::Waiting> waiting;
  size_t requests = 0;
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    const Request& request = shape->need.request;
    const auto& gang = shape->need.gang;
    for (size_t i = 0; i < shape->size() && requests < kMostPlanned; ++i) {
      waiting.push_back({gang.empty() ? std::vector{request} : gang, shape->need.placement});
      requests += waiting.back().asked.size();
    }
    if (requests >= kMostPlanned) break;
  }
  return waiting;
}

// What no node can hold has waited for one that can.
void Hub::give_up_waiting_for_nodes(const SupplyState& supply) {
  auto now = Clock::now();
  std::vector<std::pair<Need, std::string>> reasons;
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    const Need& need = shape->need;
    std::string why = need.gang.empty() ? ledger_.why_impossible(need.request)
                                        : ledger_.why_impossible(need.gang, need.placement);
    if (why.empty()) {
      shape->waits_for_node.reset();
      continue;
    }
    if (!shape->waits_for_node) shape->waits_for_node = now;
    if (now - *shape->waits_for_node < supply.patience) continue;
    reasons.emplace_back(shape->need,
                         str(why, "; ", supply.source, " has brought no node that can hold it in ",
                             static_cast<double>(supply.patience.count()) / 1000, " s",
                             supply.trouble.empty() ? "" : "; ", supply.trouble));
  }
  for (const auto& [need, why] : reasons) {
    auto taken = ready_.take_if([&](ObjectId id) { return need_of(tasks_.at(id)->spec) == need; });
    for (ObjectId id : taken) {
      fail_unqueued(id, Outcome::failed(ErrorKind::kResources, str(describe_holder(id), " ", why)));
    }
  }
}

}  // namespace manta
