// Nodes that come and go while a run lasts.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/cluster_engine_internal.h"

namespace manta {

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
  state.idle_after = options.idle;
  state.patience = options.grow_wait;
  if (!begun_) return state;  // those that the run begins with are on their way
  state.least = options.replace ? options.min_nodes.value_or(source_->expected())
                                : options.min_nodes.value_or(agents_.size() + coming_.size());
  for (const auto& [started_as, coming] : coming_) {
    state.coming.push_back(describe(coming.name, 1));
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
  // The first are asked for first: not the host that is away, if another would do.
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
      coming_[started_as] = {name, Clock::now() + options_.cluster.grow_wait};
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
  std::string name = coming->second.name;
  coming_.erase(coming);
  source_->on_left(started_as);
  count_failure(name, why);
}

void ClusterEngine::on_agent_joined(const std::string& started_as, const NodeInfo& node) {
  auto coming = coming_.find(started_as);
  if (coming != coming_.end()) {
    retries_.came(coming->second.name);
    coming_.erase(coming);
  }
  known_[started_as] = node;
  like_ = node;
}

void ClusterEngine::look_at_coming() {
  auto now = Clock::now();
  for (auto each = coming_.begin(); each != coming_.end();) {
    if (now < each->second.until) {
      ++each;
      continue;
    }
    source_->on_left(each->first);
    count_failure(each->second.name, str("node ", each->first, " has not joined in time"));
    each = coming_.erase(each);
  }
}

}  // namespace manta
