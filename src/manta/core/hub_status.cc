// What `manta status` shows of a run.

#include <unistd.h>

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "manta/base/names_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

constexpr size_t kMostShapesTold = 20;
constexpr size_t kMostProcessesTold = 1000;

nlohmann::json json_of(const Resources& resources) {
  nlohmann::json json = {{"CPU", resources.cpus}};
  if (resources.gpus != 0) json["GPU"] = resources.gpus;
  if (resources.memory != 0) json["memory"] = resources.memory;
  for (const auto& [name, amount] : resources.custom) json[name] = amount;
  return json;
}

}  // namespace

std::string Hub::status() {
  nlohmann::json status = {{"format", 1}, {"role", "driver"}, {"pid", ::getpid()}};
  std::error_code ignored;
  status["program"] = std::filesystem::read_symlink("/proc/self/exe", ignored).string();
  status["seconds"] = std::chrono::duration<double>(Clock::now() - began_).count();
  std::map<NodeId, int> processes;
  status["processes"] = nlohmann::json::array();
  for (const auto& [index, peer] : peers_) {
    if (index == 0) continue;
    ++processes[peer->node];
    if (status["processes"].size() >= kMostProcessesTold) continue;
    nlohmann::json process = {
        {"name", peer->name}, {"pid", peer->pid}, {"node", peer->node}, {"idle", false}};
    if (!peer->channel) {
      process["does"] = "starts";
    } else if (!peer->assigned.empty()) {
      process["does"] = task_name(tasks_.at(peer->assigned.front())->spec);
    } else {
      process["idle"] = peer->actor == 0;
    }
    if (peer->actor != 0) process["actor"] = describe_holder(peer->actor);
    status["processes"].push_back(process);
  }
  for (const Node& node : describe_nodes()) {
    nlohmann::json labels = nlohmann::json::object();
    for (const auto& [name, value] : node.labels) labels[name] = value;
    status["nodes"].push_back({{"id", node.id},
                               {"host", node.host},
                               {"address", node.address},
                               {"state", node.state == NodeState::kAlive ? "alive" : "draining"},
                               {"total", json_of(node.total)},
                               {"free", json_of(node.free)},
                               {"labels", labels},
                               {"processes", processes[node.id]}});
  }
  if (supply_) status["supply"] = supply_->state().source;
  size_t for_arguments = 0, sent = 0;
  for (const auto& [id, task] : tasks_) {
    for_arguments += task->open_dependencies > 0;
    sent += task->state == Task::kSent;
  }
  status["running"] = sent;
  status["waiting_for_arguments"] = for_arguments;
  status["waiting"] = nlohmann::json::array();
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    if (status["waiting"].size() >= kMostShapesTold) break;
    status["waiting"].push_back({{"tasks", shape->size()}, {"why", why_waits(shape->front())}});
  }
  status["waiting_for_room"] = ready_.size();
  // Names are the user's, and may be no UTF-8.
  return status.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

}  // namespace manta
