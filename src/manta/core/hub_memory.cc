// Large values of a run on several nodes: the hub knows where they are, and has a process's node
// fetch them before the process is told of them.

#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

template <class Do>
void for_each_value(const FromHub& message, Do act) {
  if (auto* run = std::get_if<Run>(&message)) {
    act(run->spec.args);
    for (const Value& value : run->ref_values) act(value);
  } else if (auto* ready = std::get_if<ObjectReady>(&message)) {
    if (ready->with_outcome && ready->outcome.ok) act(ready->outcome.value);
  }
}

}  // namespace

// Every value that comes to the hub.
void Hub::adopt(Value& value) {
  if (!transfers_) {
    if (value.located) throw Error(ErrorKind::kCorrupt, "it names memory of another host");
    return;
  }
  if (value.memory && !value.located) value.located = std::make_shared<LocatedMemory>(value.memory);
  if (!value.located) return;
  value.located->set_transfers(transfers_);
  if (located_.size() > 2 * located_in_use_ + 1000) {
    std::erase_if(located_, [](const auto& each) { return each.second.expired(); });
    located_in_use_ = located_.size();
  }
  located_[value.located.get()] = value.located;
}

void Hub::tell(Peer& peer, FromHub message) {
  if (transfers_ && hold_until_there(peer, message)) return;
  send_now(peer, message);
}

// Also what has nothing to wait for waits behind what has.
bool Hub::hold_until_there(Peer& peer, FromHub& message) {
  std::vector<std::shared_ptr<LocatedMemory>> missing;
  std::string lost;
  for_each_value(message, [&](const Value& value) {
    if (!value.located || value.located->is_on(peer.node)) return;
    if (lost.empty()) lost = value.located->lost();
    if (std::find(missing.begin(), missing.end(), value.located) == missing.end()) {
      missing.push_back(value.located);
    }
  });
  if (missing.empty() && peer.held.empty()) return false;
  peer.held.push_back({std::move(message), missing.size(), lost});
  if (!lost.empty()) {
    peer.held.back().missing = 0;
    // Later: whoever sends it is not prepared for its failure.
    loop_.post([this, index = peer.index] {
      if (auto found = peers_.find(index); found != peers_.end()) send_held(*found->second);
    });
    return true;
  }
  uint64_t number = peer.next_held + peer.held.size() - 1;
  for (const auto& memory : missing) {
    memory->fetch_to(peer.node, [this, index = peer.index, number](const std::string& why) {
      auto found = peers_.find(index);
      if (found == peers_.end() || stopping_) return;
      Peer& peer = *found->second;
      Held& held = peer.held[number - peer.next_held];
      --held.missing;
      if (!why.empty()) held.failed = why;
      send_held(peer);
    });
  }
  return true;
}

void Hub::send_held(Peer& peer) {
  while (!peer.held.empty() && peer.held.front().missing == 0) {
    Held held = std::move(peer.held.front());
    peer.held.pop_front();
    ++peer.next_held;
    if (!held.failed.empty()) {
      fail_held(peer, std::move(held));
      continue;
    }
    try {
      send_now(peer, held.message);
    } catch (const Error& error) {
      held.failed = error.what();
      fail_held(peer, std::move(held));
    }
  }
  if (peer.channel) peer.channel->flush();
  request_dispatch();
}

// What it speaks of cannot be had.
void Hub::fail_held(Peer& peer, Held held) {
  if (auto* ready = std::get_if<ObjectReady>(&held.message)) {
    ready->outcome = Outcome::failed(ErrorKind::kWorkerLost, str("the value of object ", ready->id,
                                                                 " cannot be had: ", held.failed));
    return send_now(peer, held.message);
  }
  auto* run = std::get_if<Run>(&held.message);
  MANTA_CHECK(run, "a message without memory waits for some");
  ObjectId id = run->spec.id;
  if (std::erase(peer.assigned, id) == 0) return;
  Task& task = *tasks_.at(id);
  std::string why = str("an argument of '", task_name(task.spec), "' cannot be had: ", held.failed);
  auto actor = actors_.find(id);
  if (actor != actors_.end()) {
    end_actor(*actor->second, {ErrorKind::kWorkerLost, why});
    return kill_process(peer);
  }
  finish_task(id, Outcome::failed(ErrorKind::kWorkerLost, why));
  if (auto owner = actors_.find(peer.actor); owner != actors_.end()) {
    send_calls(*owner->second);
  } else if (peer.assigned.empty()) {
    make_idle(peer);
  }
}

// A process that has nothing to do is sent its next call at once (send_run); the loop need not wake
// up for it.
OutBuffer& Hub::out_of(Peer& peer, bool is_run) {
  bool at_once = is_run && peer.assigned.size() < peer.concurrency;
  return at_once ? peer.channel->out_to_flush() : peer.channel->out();
}

// A value for the driver is moved out of it.
void Hub::send_now(Peer& peer, FromHub& message) {
  if (peer.index == 0) {
    if (auto* ready = std::get_if<ObjectReady>(&message)) {
      Value& value = ready->outcome.value;
      if (value.located && !value.memory) value.memory = value.located->here();
      value.located.reset();  // the hub's lock guards it, and the client has its own
      driver_client_->on_object_ready(std::move(*ready));
    }
    if (auto* answer = std::get_if<Answer>(&message)) driver_client_->on_answer(*answer);
    return;
  }
  if (!peer.channel) return;
  OutBuffer& out = out_of(peer, std::holds_alternative<Run>(message));
  if (peer.node == 0) {
    std::visit([&](const auto& inner) { encode_message<FromHub>(out, inner); }, message);
    return;
  }
  std::visit([&](const auto& inner) { encode_for_host<FromHub>(out, inner); }, message);
  std::vector<std::shared_ptr<LocatedMemory>> passing;
  for_each_value(message, [&](const Value& value) {
    if (value.located) passing.push_back(value.located);
  });
  if (!passing.empty()) peer.passing.push_back(std::move(passing));
}

void Hub::forget_memory_of(NodeId node, const std::string& why) {
  for (const auto& [memory, weak] : located_) {
    if (auto held = weak.lock()) held->forget_node(node, why);
  }
}

}  // namespace manta
