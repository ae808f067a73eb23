#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/located_memory_internal.h"

namespace manta::internal {

LocatedMemory::LocatedMemory(std::shared_ptr<SharedMemory> memory)
    : here_(std::move(memory)), nodes_{0} {
  key_.size = here_->size();
}

LocatedMemory::~LocatedMemory() {
  if (transfers_ && key_.number != 0) transfers_->drop(key_.number, nodes_);
}

const MemoryKey& LocatedMemory::key() {
  if (key_.number == 0) key_.number = transfers_->keep(here_);
  return key_;
}

void LocatedMemory::fetch_to(NodeId node, Done done) {
  auto& fetch = fetches_[node];
  fetch.done.push_back(std::move(done));
  if (fetch.done.size() == 1) start_fetch(node);
}

void LocatedMemory::start_fetch(NodeId to) {
  Fetch& fetch = fetches_.at(to);
  auto from = std::find_if(nodes_.begin(), nodes_.end(),
                           [&](NodeId node) { return !fetch.tried.contains(node); });
  MANTA_CHECK(from != nodes_.end(), "memory is fetched that is nowhere");
  fetch.tried.insert(*from);
  std::weak_ptr<LocatedMemory> weak = weak_from_this();
  auto finished = [weak, to, number = key().number,
                   transfers = transfers_](const std::string& why) {
    if (auto self = weak.lock()) {
      self->finish_fetch(to, why);
    } else if (why.empty()) {
      transfers->drop(number, {to});  // the last holder of the memory has gone meanwhile
    }
  };
  transfers_->fetch(key(), *from, to, finished);
}

void LocatedMemory::finish_fetch(NodeId to, const std::string& why) {
  auto found = fetches_.find(to);
  if (found == fetches_.end()) return;  // the node has gone
  if (why.empty()) {
    nodes_.insert(to);
    if (to == 0) here_ = transfers_->find(key_.number);
  } else if (std::any_of(nodes_.begin(), nodes_.end(),
                         [&](NodeId node) { return !found->second.tried.contains(node); })) {
    return start_fetch(to);
  }
  auto done = std::move(found->second.done);
  fetches_.erase(found);
  for (auto& each : done) each(lost_.empty() ? why : lost_);
}

void LocatedMemory::forget_node(NodeId node, const std::string& why) {
  fetches_.erase(node);
  nodes_.erase(node);
  if (nodes_.empty() && lost_.empty()) lost_ = why;
  // Transfers from this node end by themselves, and look for another copy.
}

}  // namespace manta::internal
