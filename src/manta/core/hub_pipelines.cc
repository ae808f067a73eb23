#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

// A worker is sent so many short tasks ahead, so that it need not wait for the hub between them.
constexpr size_t kPipeline = 32;
// One that has been sent so many gets the next when it has no more than these: several in one
// system call, and read by another.
constexpr size_t kRefill = 24;

}  // namespace

// What no worker is free for is sent ahead to those that run short tasks of the same need. They
// keep their grant from one task to the next.
void Hub::fill_pipelines() {
  if (pipelines_.empty() || ready_.empty()) return;
  std::vector<const Resources*> older;
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    // Workers that never let go of their CPU would keep it from a larger task that came first.
    const Resources& resources = shape->need.request.resources;
    bool yields = std::any_of(older.begin(), older.end(),
                              [&](auto* other) { return compete(*other, resources); });
    older.push_back(&resources);
    if (yields) continue;
    while (!shape->empty()) {
      auto pipeline = std::find_if(pipelines_.begin(), pipelines_.end(),
                                   [&](const Pipeline& each) { return each.need == shape->need; });
      if (pipeline == pipelines_.end()) break;
      Task& task = *tasks_.at(shape->front());
      if (!is_short(task)) break;
      auto& open = pipeline->open;
      Peer& peer = *peers_.at(open.front());
      if (peer.channel->broken() || !is_short(*tasks_.at(peer.assigned.back()))) {
        close_pipeline(peer);
        continue;
      }
      open.splice(open.end(), open, open.begin());  // its turn comes again after the others'
      ready_.pop_front(*shape);
      if (peer.assigned.size() + 1 >= kPipeline) close_pipeline(peer);
      assign(task, peer);
    }
  }
}

// If it may be sent more than it has.
void Hub::open_pipeline(Peer& peer) {
  if (peer.pipeline || peer.actor != 0 || peer.assigned.empty() || peer.blocked || peer.doomed ||
      peer.recalled || peer.assigned.size() > kRefill || !peer.grant) {
    return;
  }
  auto node = nodes_.find(peer.node);
  if (node == nodes_.end() || node->second.draining) return;
  const Task& last = *tasks_.at(peer.assigned.back());
  if (!is_short(last)) return;
  Need need(last.spec);
  auto pipeline = std::find_if(pipelines_.begin(), pipelines_.end(),
                               [&](const Pipeline& each) { return each.need == need; });
  if (pipeline == pipelines_.end()) {
    pipeline = pipelines_.insert(pipeline, Pipeline{std::move(need), {}});
  }
  peer.pipeline = &*pipeline;
  peer.in_pipeline = pipeline->open.insert(pipeline->open.end(), peer.index);
}

void Hub::close_pipeline(Peer& peer) {
  if (!peer.pipeline) return;
  Pipeline* pipeline = std::exchange(peer.pipeline, nullptr);
  pipeline->open.erase(peer.in_pipeline);
  if (!pipeline->open.empty()) return;
  std::erase_if(pipelines_, [&](const Pipeline& each) { return &each == pipeline; });
}

}  // namespace manta
