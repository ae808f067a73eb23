#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

constexpr std::chrono::seconds kStartDeadline{60};
// From the end of a process of another node to the end of what it had said.
constexpr std::chrono::seconds kExitPatience{1};
constexpr std::chrono::milliseconds kLookAfter{20};
constexpr std::chrono::seconds kIdleLimit{1};

template <class Peer>
bool holds_gpus(const Peer& peer) {
  return peer.gpu_ids && !peer.gpu_ids->empty();
}

// So many idle workers of a node are kept for the next tasks.
template <class Node>
size_t keeps_idle(const Node& node) {
  return static_cast<size_t>(std::max(1.0, node.info.total.cpus));
}

}  // namespace

Hub::Peer& Hub::add_process(NodeId node, const std::string& name, ObjectId actor,
                            std::string log_path) {
  auto peer = std::make_unique<Peer>();
  peer->index = next_index_++;
  peer->node = node;
  peer->actor = actor;
  peer->name = name;
  peer->log_path = std::move(log_path);
  if (node == 0) {  // others follow their logs themselves
    if (peer->log_path.empty()) peer->log_path = options_.log_folder + "/" + name + ".log";
    peer->log = std::make_unique<WorkerLog>(*logs_, name, peer->log_path);
  }
  uint32_t index = peer->index;
  return *(peers_[index] = std::move(peer));
}

void Hub::start_processes(const std::vector<Peer*>& gang) {
  std::vector<Placed> placed;
  for (const Peer* peer : gang) {
    ProcessSpec& spec = placed.emplace_back(Placed{peer->node, {}}).spec;
    spec.name = peer->name;
    spec.log_path = peer->log_path;
    if (peer->grant) spec.resources = peer->grant->amounts;
  }
  auto processes = engine_->start(placed);
  joining_ += gang.size();
  for (size_t i = 0; i < gang.size(); ++i) {
    gang[i]->process = processes[i];
    gang[i]->deadline = kill_after(kStartDeadline, gang[i]->index);
    peer_of_process_[processes[i]] = gang[i]->index;
  }
}

void Hub::on_started(ProcessId process, pid_t pid) {
  if (auto detached = detached_starts_.find(process); detached != detached_starts_.end()) {
    auto [index, request] = detached->second;
    detached_starts_.erase(detached);
    if (peers_.contains(index)) {
      answer(*peers_.at(index), request, {}, static_cast<uint64_t>(pid));
    }
    return;
  }
  auto found = peer_of_process_.find(process);
  if (found != peer_of_process_.end()) peers_.at(found->second)->pid = pid;
}

void Hub::on_start_failed(const std::vector<ProcessId>& gang, const std::string& why) {
  for (ProcessId process : gang) {
    if (auto detached = detached_starts_.find(process); detached != detached_starts_.end()) {
      auto [index, request] = detached->second;
      detached_starts_.erase(detached);
      if (peers_.contains(index)) {
        refuse(*peers_.at(index), request, ErrorKind::kResources, why);
      }
      continue;
    }
    auto found = peer_of_process_.find(process);
    if (found == peer_of_process_.end()) continue;
    Peer& peer = *peers_.at(found->second);
    if (peer.actor != 0) {
      on_actor_lost(peer, "could not be started: " + why);
    } else {
      --nodes_.at(peer.node).starting;
      on_worker_start_failed(why);
    }
    remove_peer(peer);
  }
  request_dispatch();
}

void Hub::on_exited(const ProcessExit& exit) {
  auto found = peer_of_process_.find(exit.process);
  if (found == peer_of_process_.end()) return;
  Peer& peer = *peers_.at(found->second);
  if (peer.node == 0 || !exit.node_lost.empty()) {
    if (peer.channel) peer.channel->drain();  // what it said before it ended
    return finish_exit(exit);
  }
  if (!peer.channel || peer.channel->broken()) return finish_exit(exit);
  // What it said before it ended comes by another connection, which ends then.
  peer.exit = exit;
  peer.deadline = loop_.after(kExitPatience, [this, exit] { finish_exit(exit); });
}

void Hub::finish_exit(ProcessExit exit) {
  auto found = peer_of_process_.find(exit.process);
  if (found == peer_of_process_.end()) return;
  uint32_t index = found->second;
  Peer& peer = *peers_.at(index);
  peer.log_tail = exit.log_tail;
  peer.stack = exit.stack;
  peer.log_end = exit.log_end;
  bool counts = exit.lost_with == 0 || exit.lost_with != last_counted_loss_;
  if (exit.lost_with != 0) last_counted_loss_ = exit.lost_with;
  if (peer.actor != 0) {
    on_actor_lost(peer, exit.describe());
  } else if (!peer.channel) {
    if (auto node = nodes_.find(peer.node); node != nodes_.end()) --node->second.starting;
    if (counts)
      on_worker_start_failed(str("process ", peer.name, " ", exit.describe(),
                                 " before it had joined the run. Its log:\n",
                                 peer.log ? peer.log->tail() : peer.log_tail));
  } else {
    on_worker_lost(peer, exit.describe());
  }
  logs_->finish(std::move(peer.log));
  remove_peer(peer);
  if (stopping_) {
    bool actors = false;
    for (auto& [other, left] : peers_) actors = actors || (left->actor != 0 && left->channel);
    if (!actors) loop_.context.stop();
  }
  request_dispatch();
}

std::unique_ptr<EventLoop::Timer> Hub::kill_after(std::chrono::milliseconds delay, uint32_t index) {
  return loop_.after(delay, [this, index] {
    auto peer = peers_.find(index);
    if (peer != peers_.end()) kill_process(*peer->second);
  });
}

void Hub::kill_process(Peer& peer) {
  peer.doomed = true;
  close_pipeline(peer);
  forget_idle(peer);
  engine_->kill(peer.process);
}

void Hub::release_grant(Peer& peer) {
  if (peer.blocked && peer.grant) ledger_.resume_cpus(*peer.grant);
  if (peer.blocked && peer.counts_as_free) ++free_running_;
  peer.blocked = false;
  if (peer.grant) ledger_.release(*peer.grant);
  peer.grant.reset();
  if (peer.counts_as_free) --free_running_;
  peer.counts_as_free = false;
}

void Hub::make_idle(Peer& peer) {
  release_grant(peer);
  close_pipeline(peer);
  if (peer.doomed) return;  // whatever it were given now would be taken for what it died of
  auto node = nodes_.find(peer.node);
  if (node == nodes_.end()) return;  // it is gone, and so is this process
  peer.idle_since = Clock::now();
  node->second.idle.push_back(peer.index);
  if (holds_gpus(peer) || node->second.idle.size() > keeps_idle(node->second)) {
    crowded_.insert(peer.node);
  }
}

void Hub::forget_idle(const Peer& peer) {
  auto node = nodes_.find(peer.node);
  if (node != nodes_.end()) std::erase(node->second.idle, peer.index);
}

// The latest used one that may see these devices, or else one that has run nothing. Null if there
// is none.
Hub::Peer* Hub::take_idle(NodeEntry& node, const std::vector<int>& gpu_ids) {
  auto& idle = node.idle;
  auto fits = [&](uint32_t index) { return peers_.at(index)->gpu_ids == gpu_ids; };
  auto is_fresh = [&](uint32_t index) { return !peers_.at(index)->gpu_ids; };
  auto found = std::find_if(idle.rbegin(), idle.rend(), fits);
  if (found == idle.rend()) {
    retire_idle_on(node, gpu_ids);
    found = std::find_if(idle.rbegin(), idle.rend(), is_fresh);
  }
  if (found == idle.rend()) return nullptr;
  Peer& peer = *peers_.at(*found);
  idle.erase(std::next(found).base());
  peer.gpu_ids = gpu_ids;
  return &peer;
}

// Ends idle workers that still have memory of one of these devices, which another process gets.
void Hub::retire_idle_on(NodeEntry& node, const std::vector<int>& gpu_ids) {
  for (uint32_t index : std::vector(node.idle)) {
    Peer& peer = *peers_.at(index);
    if (!holds_gpus(peer)) continue;
    bool shares = std::find_first_of(peer.gpu_ids->begin(), peer.gpu_ids->end(), gpu_ids.begin(),
                                     gpu_ids.end()) != peer.gpu_ids->end();
    if (shares) retire(peer);
  }
}

// Nobody needs it any more.
void Hub::retire(Peer& peer) {
  forget_idle(peer);
  peer.ending = true;
  tell(peer, Exit{});
}

void Hub::remove_peer(Peer& peer) {
  release_grant(peer);
  close_pipeline(peer);
  if (peer.channel) {
    peer.channel->close();
  } else {
    --joining_;
  }
  forget_idle(peer);
  peer_of_process_.erase(peer.process);
  auto owned = std::move(peers_.at(peer.index));
  peers_.erase(owned->index);
  objects_.forget_peer(owned->index);
  for (const auto& [id, count] : owned->refs) {
    for (int i = 0; i < count; ++i) objects_.release(id);
  }
  if (!stopping_ && !owned->ending) abandon_children(owned->index);
}

void Hub::on(Peer& peer, StartDetached request) {
  if (request.spec.args.memory || request.spec.args.located || !request.spec.args.refs.empty() ||
      !request.spec.ref_args.empty()) {
    return refuse(
        peer, request.request, ErrorKind::kInvalidArgument,
        "a detached process outlives this run, so its arguments can be neither references "
        "nor over 100 KB: pass the path of a file instead");
  }
  ProcessSpec spec;
  spec.name = "manta:detached";
  spec.log_path = request.log_path;
  OutArchive archive(spec.detached_call);
  archive(request.spec);
  // Beside the process that asks: paths that it was given are of that machine.
  ProcessId process = engine_->start({Placed{peer.node, spec}}).front();
  detached_starts_[process] = {peer.index, request.request};
}

// Now and then while there is something to see to: calls that wait behind a long one, workers that
// nobody needs.
void Hub::arm_look_after() {
  if (look_after_timer_ || stopping_ || (crowded_.empty() && deep_.empty())) return;
  look_after_timer_ = loop_.after(kLookAfter, [this] {
    auto done = std::move(look_after_timer_);
    look_after_processes();
    arm_look_after();
  });
}

void Hub::look_after_processes() {
  std::erase_if(deep_, [&](uint32_t index) {
    auto found = peers_.find(index);
    if (found == peers_.end() || found->second->assigned.size() < 2) return true;
    Peer& peer = *found->second;
    if (!peer.progressed && !peer.recalled) {
      peer.recalled = true;
      close_pipeline(peer);
      tell(peer, Recall{});
    }
    peer.progressed = false;
    return false;
  });
  auto now = Clock::now();
  for (NodeId id : std::vector(crowded_.begin(), crowded_.end())) {
    auto found = nodes_.find(id);
    if (found == nodes_.end()) {
      crowded_.erase(id);
      continue;
    }
    NodeEntry& node = found->second;
    auto& idle = node.idle;
    while (idle.size() > keeps_idle(node) &&
           now - peers_.at(idle.front())->idle_since > kIdleLimit) {
      retire(*peers_.at(idle.front()));
    }
    // One that holds memory of a device does so for nothing.
    bool gpus = false;
    for (uint32_t index : std::vector(idle)) {
      Peer& peer = *peers_.at(index);
      if (!holds_gpus(peer)) continue;
      gpus = true;
      if (now - peer.idle_since > kIdleLimit) retire(peer);
    }
    if (!gpus && idle.size() <= keeps_idle(node)) crowded_.erase(id);
  }
}

std::string Hub::lost_message(const Peer& peer, const std::string& what,
                              const std::string& how) const {
  std::string where = nodes_.size() > 1 && nodes_.contains(peer.node)
                          ? str(" on ", nodes_.at(peer.node).info.host)
                          : "";
  std::string message =
      str(what, ": its process ", peer.name, " (pid ", peer.pid, where, ") ", how);
  if (!peer.stack.empty()) message += ". Its stack:\n" + peer.stack;
  std::string tail = peer.log ? peer.log->tail(peer.log_end) : peer.log_tail;
  // A log in the run's own folder goes with the run, and an agent's with the agent.
  bool kept = !peer.log_path.empty() && !peer.log_path.starts_with(options_.session_folder + "/");
  if (tail.empty() && !kept) return message;
  message += peer.stack.empty() ? ". " : "\n";
  std::string log = kept ? str("its log ", peer.log_path) : "its log";
  return message + (tail.empty() ? "See " + log : "The end of " + log + ":\n" + tail);
}

}  // namespace manta
