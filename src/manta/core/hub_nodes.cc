#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/hub_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {

void Hub::on_node_joined(const NodeInfo& node) {
  NodeEntry& entry = nodes_[node.id];
  entry.info = node;
  Labels& labels = entry.info.labels;
  labels.emplace_back("node", node.host);
  labels.emplace_back("id", std::to_string(node.id));
  labels.emplace_back("role", node.id == 0 ? "driver" : "worker");
  ledger_.add_node({node.id, node.host, node.total, labels});
  if (driver_client_) driver_client_->set_most(most_of_a_node());
  request_dispatch();
}

void Hub::on_node_draining(NodeId id, const std::string& why) {
  auto found = nodes_.find(id);
  if (found == nodes_.end() || found->second.draining) return;
  log_warning(str("node ", found->second.info.host, " will be taken away (", why,
                  "): nothing new is started there"));
  found->second.draining = true;
  ledger_.drain_node(id);
  if (driver_client_) driver_client_->set_most(most_of_a_node());
  fail_impossible();
  request_dispatch();
}

void Hub::on_node_left(NodeId id, const std::string& why) {
  auto found = nodes_.find(id);
  if (found == nodes_.end()) return;
  std::string host = found->second.info.host;
  if (why.empty()) {
    log_info(str("node ", host, " is given back"));
  } else {
    log_warning(str("node ", host, " is lost: ", why));
  }
  // First, so that what its processes were at is not placed there again.
  nodes_.erase(found);
  ledger_.remove_node(id);
  forget_memory_of(id, str("it was on node ", host, " only, which is lost: ", why));
  if (driver_client_) driver_client_->set_most(most_of_a_node());
  std::vector<ProcessId> lost;
  for (const auto& [index, peer] : peers_) {
    if (index != 0 && peer->node == id) lost.push_back(peer->process);
  }
  for (ProcessId process : lost) {
    ProcessExit exit;
    exit.process = process;
    exit.node_lost = str(host, ": ", why);
    on_exited(exit);
  }
  fail_impossible();
  request_dispatch();
}

Resources Hub::most() {
  std::lock_guard lock(loop_.mutex);
  return most_of_a_node();
}

Resources Hub::most_of_a_node() const {
  Resources most{.cpus = 0};
  std::vector<Resources> all;
  for (const auto& [id, node] : nodes_) {
    if (!node.draining) all.push_back(node.info.total);
  }
  if (supply_) {
    SupplyState supply = supply_->state();
    for (const auto& each : supply.coming) all.push_back(each.total);
    for (const auto& each : supply.possible) all.push_back(each.total);
    for (const auto& each : supply.replacements) all.push_back(each.total);
  }
  for (const Resources& total : all) {
    most.cpus = std::max(most.cpus, total.cpus);
    most.gpus = std::max(most.gpus, total.gpus);
    most.memory = std::max(most.memory, total.memory);
    for (const auto& [name, amount] : total.custom) {
      auto same = std::find_if(most.custom.begin(), most.custom.end(),
                               [&name = name](const auto& entry) { return entry.first == name; });
      if (same == most.custom.end()) {
        most.custom.emplace_back(name, amount);
      } else {
        same->second = std::max(same->second, amount);
      }
    }
  }
  return most;
}

std::vector<Node> Hub::describe_nodes() const {
  std::vector<Node> result;
  for (const auto& [id, node] : nodes_) {
    result.push_back({id, node.info.host, node.info.address, node.info.total, ledger_.available(id),
                      node.info.labels, node.draining ? NodeState::kDraining : NodeState::kAlive});
  }
  return result;
}

// Empty if it is possible. One machine needs no word about nodes.
std::string Hub::why_impossible(const std::vector<Request>& asked, Placement placement,
                                bool with_replacements) const {
  bool one_machine = nodes_.size() == 1 && placement != Placement::kStrictSpread &&
                     std::all_of(asked.begin(), asked.end(), [&](const Request& each) {
                       return has_labels(nodes_.begin()->second.info.labels, each.labels);
                     });
  std::string why = asked.size() == 1 ? ledger_.why_impossible(asked.front())
                                      : ledger_.why_impossible(asked, placement);
  if (!why.empty() && may_come(asked, placement, with_replacements)) return "";
  if (why.empty() || !one_machine) return why;
  std::string times = asked.size() == 1 ? "" : str(asked.size(), " times ");
  return str("asks for ", times, to_string(asked.front().resources), ", but this machine has only ",
             to_string(nodes_.begin()->second.info.total),
             "; ask for less, or declare more in InitOptions::resources");
}

std::string Hub::why_impossible(const Need& need) const {
  return ledger_.is_possible(need.request) ? "" : why_impossible({need.request}, need.placement);
}

const std::vector<Request>& Hub::requests_of(const std::vector<ObjectId>& group) const {
  return actors_.at(group.front())->gang;
}

// A node has gone, and with it perhaps the only place for what waits.
void Hub::fail_impossible() {
  std::map<ObjectId, std::string> reasons;
  auto taken = ready_.take_if([&](ObjectId id) {
    auto actor = actors_.find(id);
    std::string why =
        actor != actors_.end() && !actor->second->group.empty()
            ? why_impossible(requests_of(actor->second->group), actor->second->create.placement)
            : why_impossible(Need(tasks_.at(id)->spec));
    if (!why.empty()) reasons[id] = why;
    return !why.empty();
  });
  for (ObjectId id : taken) {
    fail_unqueued(
        id, Outcome::failed(ErrorKind::kResources, str(describe_holder(id), " ", reasons.at(id))));
  }
}

void Hub::fail_unqueued(ObjectId id, const Outcome& failed) {
  auto task = tasks_.find(id);
  if (task == tasks_.end()) return;      // it went with another
  task->second->state = Task::kWaiting;  // it is in no queue
  auto actor = actors_.find(id);
  if (actor != actors_.end()) {
    end_actor(*actor->second, failed.error);
  } else {
    finish_task(id, failed);
  }
}

}  // namespace manta
