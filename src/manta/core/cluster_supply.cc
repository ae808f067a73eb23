// Nodes that come and go while a run lasts.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/cluster_engine_internal.h"

namespace manta {
namespace {

// No node is taken back because the queue of tasks is empty for a moment.
constexpr std::chrono::seconds kSparedFor{5};

}  // namespace

PossibleNodes ClusterEngine::describe(const std::string& name, size_t count) const {
  PossibleNodes nodes{name, count, {.cpus = 0}, {{"role", "worker"}}};
  auto known = known_.find(name);
  if (known != known_.end()) {
    nodes.total = known->second.total;
    nodes.labels.insert(nodes.labels.end(), known->second.labels.begin(),
                        known->second.labels.end());
    nodes.labels.emplace_back("node", known->second.host);
  } else if (auto shape = source_->shape()) {
    nodes.total = *shape;
  } else if (like_) {
    nodes.total = like_->total;
  }
  return nodes;
}

SupplyState ClusterEngine::state() const {
  const ClusterOptions& options = options_.cluster;
  SupplyState state;
  state.source = options.kind;
  state.patience = options.grow_wait;
  if (!begun_) return state;  // the first nodes wait for each other, however long that takes
  state.idle_after = options.idle;
  state.least = options.replace ? options.min_nodes.value_or(source_->expected())
                                : options.min_nodes.value_or(std::min(
                                      source_->expected(), agents_.size() + coming_.size()));
  for (const auto& [started_as, coming] : coming_) {
    // Uses the resources that it was asked for with: the last node that joined, which others are
    // taken to be like, may differ.
    bool is_known = coming.node.total.cpus > 0;
    state.coming.push_back(is_known ? coming.node : describe(coming.node.name, 1));
  }
  std::set<std::string> leaving;
  size_t there = agents_.size() + coming_.size(), stay = there;
  for (const auto& [id, agent] : agents_) {
    if (!agent.draining && !agent.released) continue;
    leaving.insert(agent.started_as);
    --stay;
  }
  auto now = source_->possible(there, {});
  for (const auto& [name, count] : source_->possible(stay, leaving)) {
    if (!options.replace && !name.empty()) continue;
    size_t at_once = std::min(now[name], count);
    if (at_once > 0) state.possible.push_back(describe(name, at_once));
    if (count > at_once) state.replacements.push_back(describe(name, count - at_once));
  }
  // The first in the list are asked for first, so hosts that are away go to the end.
  std::stable_sort(state.possible.begin(), state.possible.end(),
                   [&](const PossibleNodes& one, const PossibleNodes& other) {
                     return retries_.failures(one.name) < retries_.failures(other.name);
                   });
  state.trouble = retries_.describe();
  return state;
}

void ClusterEngine::want_nodes(const std::string& name, size_t count) {
  if (stopping_ || !retries_.may_ask(name, Clock::now())) return;
  try {
    for (const auto& started_as : source_->bring(name, count)) {
      log_info(str("asking ", options_.cluster.kind, " for node ", started_as));
      coming_[started_as] = {describe(name, 1), Clock::now()};
      withdrawn_.erase(started_as);
    }
  } catch (const Error& error) {
    source_->on_left(name);
    count_failure(name, error.what());
  }
}

void ClusterEngine::release_node(NodeId node) {
  auto agent = agents_.find(node);
  if (agent == agents_.end()) return;
  agent->second.released = true;
  encode_message<ToAgent>(agent->second.channel->out(), AgentEnd{});
}

void ClusterEngine::count_failure(const std::string& name, const std::string& why) {
  retries_.failed(name, why, Clock::now());
  if (!retries_.is_worth_telling(name)) return;
  log_warning(str("a node that was asked for does not come: ", why, "; ", retries_.failures(name),
                  " in a row, and it is asked for again"));
}

void ClusterEngine::on_source_failed(const std::string& started_as, const std::string& why) {
  if (stopping_) return;
  if (!begun_) {
    failed_[started_as] = why;
    changed_.notify_all();
    return;
  }
  auto coming = coming_.find(started_as);
  if (coming == coming_.end()) return;
  std::string name = coming->second.node.name;
  coming_.erase(coming);
  source_->on_left(started_as);
  count_failure(name, why);
}

void ClusterEngine::on_agent_joined(const std::string& started_as, const NodeInfo& node) {
  auto coming = coming_.find(started_as);
  if (coming != coming_.end()) {
    retries_.came(coming->second.node.name);
    coming_.erase(coming);
  }
  known_[started_as] = node;
  like_ = node;
}

// A host that does not answer is asked again. New nodes keep their place in the cluster's queue for
// as long as something needs them.
void ClusterEngine::look_at_coming() {
  auto now = Clock::now();
  std::vector<std::pair<std::string, std::string>> late;
  for (const auto& [started_as, coming] : coming_) {
    bool queues = coming.node.name.empty();
    if (!queues && now - coming.asked > options_.cluster.grow_wait) {
      late.emplace_back(started_as, coming.node.name);
    }
  }
  for (const auto& [started_as, name] : late) {
    withdraw(started_as);
    count_failure(name, str("node ", started_as, " has not joined in time"));
  }
}

void ClusterEngine::withdraw(const std::string& started_as) {
  coming_.erase(started_as);
  withdrawn_.insert(started_as);
  source_->withdraw(started_as);
}

// Withdraws the nodes that were asked for last.
void ClusterEngine::spare_nodes(const std::map<std::string, size_t>& spare) {
  if (stopping_) return;
  auto now = Clock::now();
  std::vector<std::pair<const std::string, Coming>*> latest;
  for (auto& each : coming_) latest.push_back(&each);
  std::stable_sort(latest.begin(), latest.end(), [](const auto* one, const auto* other) {
    return one->second.asked > other->second.asked;
  });
  auto left = spare;
  std::vector<std::string> over;
  for (auto* each : latest) {
    auto& [started_as, coming] = *each;
    size_t& count = left[coming.node.name];
    if (count == 0) {
      coming.spare_since.reset();
      continue;
    }
    --count;
    if (!coming.spare_since) coming.spare_since = now;
    if (now - *coming.spare_since > kSparedFor) over.push_back(started_as);
  }
  for (const auto& started_as : over) {
    log_info(str("node ", started_as, " is not needed any more: it is withdrawn"));
    withdraw(started_as);
  }
}

}  // namespace manta
