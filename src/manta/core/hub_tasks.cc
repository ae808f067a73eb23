#include <algorithm>
#include <cstring>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

// Tasks that ask for nothing would otherwise start as many processes as there are tasks.
constexpr int kMaxFreeTasks = 64;
constexpr double kShortTask = 200e3;  // ns
// A process that does not end itself when a task is cancelled by force is killed after this.
constexpr std::chrono::milliseconds kForceGrace{500};
// So many workers in a row that end before they join are not an accident.
constexpr int kMaxStartFailures = 20;
// Between two tries after one failed.
constexpr std::chrono::milliseconds kStartPause{50};

uint64_t function_key(const Function& function) {
  uint64_t id;
  std::memcpy(&id, function.target.build_id.data(), sizeof(id));
  return (function.thunk.offset * 0x9e3779b97f4a7c15u) ^ function.target.offset ^ id;
}

}  // namespace

// As it queues.
Need Hub::need_of(const TaskSpec& spec) const {
  Need need(spec);
  if (!need.creates_actor) return need;
  auto actor = actors_.find(spec.id);
  if (actor != actors_.end() && !actor->second->group.empty()) need.gang = actor->second->gang;
  return need;
}

void Hub::submit(Peer& peer, TaskSpec&& spec, const std::vector<ObjectId>& group,
                 std::vector<Request> gang) {
  ObjectId id = spec.id;
  objects_.create(id);
  auto owned = std::make_unique<Task>();
  Task& task = *owned;
  task.spec = std::move(spec);
  task.submitter = peer.index;
  tasks_[id] = std::move(owned);
  if (task.spec.kind == TaskKind::kActorCreate) add_actor(task.spec, group, std::move(gang));
  if (task.spec.parent != 0) children_[task.spec.parent].push_back(id);

  // Held until the task is done: for its first run, and for every other.
  for (ObjectId ref : task.spec.args.refs) objects_.add_ref(ref);
  for (const auto& argument : task.spec.ref_args) objects_.add_ref(argument.id);
  if (task.spec.kind == TaskKind::kActorCall) objects_.add_ref(task.spec.actor);

  for (const auto& argument : task.spec.ref_args) {
    if (objects_.add_dependent(argument.id, id)) ++task.open_dependencies;
  }
  auto parent = task.spec.parent == 0 ? tasks_.end() : tasks_.find(task.spec.parent);
  if (parent != tasks_.end() && parent->second->cancelled && task.spec.kind == TaskKind::kTask) {
    return cancel(id, false);
  }
  if (task.spec.kind == TaskKind::kActorCall) return submit_call(task);
  if (!group.empty() && id != group.front()) {
    task.state = Task::kQueued;  // with the first of the group
    return;
  }
  if (task.open_dependencies == 0) enqueue(task);
}

void Hub::dependency_ready(Task& task) {
  if (--task.open_dependencies > 0) return;
  if (task.spec.kind != TaskKind::kActorCall) return enqueue(task);
  auto actor = actors_.find(task.spec.actor);
  if (actor != actors_.end()) send_calls(*actor->second);
}

// Everything that it needs is there; or has failed, and then so does the task.
void Hub::enqueue(Task& task) {
  task.state = Task::kQueued;
  for (const auto& argument : task.spec.ref_args) {
    const Outcome* outcome = objects_.outcome(argument.id);
    if (outcome && outcome->ok) continue;
    Outcome failed = outcome
                         ? *outcome
                         : Outcome::failed(ErrorKind::kNotFound, "an argument's object is unknown");
    auto actor = actors_.find(task.spec.id);
    if (actor != actors_.end()) return end_actor(*actor->second, failed.error);
    return finish_task(task.spec.id, std::move(failed));
  }
  Need need = need_of(task.spec);
  std::string why = why_impossible(need);
  if (why.empty()) return ready_.push_back(task.spec.id, task.spec.depth, need);
  Outcome failed =
      Outcome::failed(ErrorKind::kResources, str(describe_holder(task.spec.id), " ", why));
  task.state = Task::kWaiting;
  auto actor = actors_.find(task.spec.id);
  if (actor != actors_.end()) return end_actor(*actor->second, failed.error);
  finish_task(task.spec.id, failed);
}

bool Hub::is_short(const Task& task) const {
  if (task.spec.kind != TaskKind::kTask) return false;
  auto found = run_time_.find(function_key(task.spec.function));
  return found != run_time_.end() && found->second < kShortTask;
}

void Hub::dispatch_tasks() {
  if (ready_.empty()) return;
  std::vector<Grant> tentative;
  std::vector<const Request*> starved;
  std::vector<TaskQueue::Shape*> waiting;
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    const Request& request = shape->need.request;
    std::vector<const Request*> reserved;  // by those that have waited too long
    for (const Request* other : starved) {
      if (compete(other->resources, request.resources)) reserved.push_back(other);
    }
    bool asks_nothing = request.resources == Resources{.cpus = 0};
    bool creates = shape->need.creates_actor;
    size_t could_start = 0;  // with more processes
    bool started = false;
    std::optional<NodeId> last;
    while (shape->size() > could_start) {
      Task& task = *tasks_.at(shape->front());
      if (creates && !actors_.at(task.spec.id)->group.empty()) {
        auto group = actors_.at(task.spec.id)->group;
        if (!reserved.empty() || !start_group(group)) break;
        last.reset();
        ready_.pop_front(*shape);
        started = true;
        continue;
      }
      if (asks_nothing && !creates &&
          free_running_ + static_cast<int>(could_start) >= kMaxFreeTasks) {
        break;
      }
      auto grant = ledger_.acquire(request, shape->need.placement, shape->front(), reserved, last);
      if (!grant) break;
      last = grant->node;
      NodeEntry& node = nodes_.at(grant->node);
      if (creates) {
        ready_.pop_front(*shape);
        start_processes({&place_actor(task, std::move(*grant))});
      } else if (Peer* idle =
                     node.wanted_of_shape == 0 ? take_idle(node, grant->gpu_ids) : nullptr) {
        Peer& peer = *idle;
        ready_.pop_front(*shape);
        peer.grant = std::move(*grant);
        peer.counts_as_free = asks_nothing;
        if (asks_nothing) ++free_running_;
        assign(task, peer);
        if (!peer.grant) last.reset();  // it was given back
      } else {
        tentative.push_back(std::move(*grant));
        ++node.wanted_of_shape;
        ++node.wanted;
        ++could_start;
        continue;
      }
      started = true;
    }
    if (could_start > 0) {
      for (const Grant& grant : tentative) nodes_.at(grant.node).wanted_of_shape = 0;
    }
    if (started) {
      shape->passed_over = 0;
      for (auto* other : waiting) ++other->passed_over;
    }
    if (!shape->empty()) {
      waiting.push_back(shape);
      // Nodes that cannot hold it keep nothing for it.
      bool starves = shape->passed_over > kMaxPassedOver && !shape->waits_for_node;
      if (starves) starved.push_back(&request);
    }
  }
  for (const Grant& grant : tentative) ledger_.release(grant);
  for (const Grant& grant : tentative) {
    NodeEntry& node = nodes_.at(grant.node);
    int wanted = std::exchange(node.wanted, 0);
    if (start_timer_) continue;
    for (; node.starting < wanted; ++node.starting) {
      start_processes({&add_process(grant.node, str("worker-", next_worker_name_++), 0)});
    }
  }
  fill_pipelines();
}

void Hub::assign(Task& task, Peer& peer) {
  if (send_run(task, peer)) return open_pipeline(peer);
  if (peer.assigned.empty()) make_idle(peer);
}

// False if the message cannot be made; the task has failed then.
bool Hub::send_run(Task& task, Peer& peer) {
  std::vector<Value> ref_values;
  for (const auto& argument : task.spec.ref_args) {
    const Outcome* outcome = objects_.outcome(argument.id);
    MANTA_CHECK(outcome && outcome->ok, "a task is sent before its arguments are there");
    ref_values.push_back(outcome->value);
  }
  static const std::vector<int> kNoGpus;
  double cpus = peer.grant ? peer.grant->amounts.cpus : 0;
  const auto& gpu_ids = peer.grant ? peer.grant->gpu_ids : kNoGpus;
  ++task.attempts;
  try {
    if (transfers_) {
      tell(peer, Run{task.spec, std::move(ref_values), task.attempts, cpus, gpu_ids});
    } else if (peer.channel) {
      encode_as<FromHub, Run>(out_of(peer, /*is_run=*/true),
                              RunOf{task.spec, ref_values, task.attempts, cpus, gpu_ids});
    }
  } catch (const Error& error) {
    finish_task(task.spec.id,
                Outcome::failed(error.kind(),
                                str("sending task '", task_name(task.spec), "': ", error.what())));
    return false;
  }
  task.state = Task::kSent;
  task.peer = peer.index;
  peer.assigned.push_back(task.spec.id);
  if (peer.assigned.size() > 1 && peer.actor == 0) deep_.insert(peer.index);
  // A process that has nothing else to do is told at once; one that has, together with what
  // follows.
  if (peer.assigned.size() <= peer.concurrency) peer.channel->flush();
  // A process that has ended is told of in a moment; the task has certainly not begun there.
  if (peer.channel->broken() && task.spec.kind != TaskKind::kActorCreate) {
    on_tasks_returned(peer, {task.spec.id});
  }
  return true;
}

void Hub::finish_task(ObjectId id, Outcome outcome) {
  auto owned = std::move(tasks_.at(id));
  tasks_.erase(id);
  const TaskSpec& spec = owned->spec;
  if (auto siblings = children_.find(spec.parent); siblings != children_.end()) {
    std::erase(siblings->second, id);
    if (siblings->second.empty()) children_.erase(siblings);
  }
  objects_.finish(id, std::move(outcome));
  for (ObjectId ref : spec.args.refs) objects_.release(ref);
  for (const auto& argument : spec.ref_args) objects_.release(argument.id);
  if (spec.kind == TaskKind::kActorCall) objects_.release(spec.actor);
}

void Hub::on_task_done(Peer& peer, TaskDone&& done) {
  auto place = std::find(peer.assigned.begin(), peer.assigned.end(), done.id);
  if (place == peer.assigned.end()) return;
  peer.assigned.erase(place);
  peer.progressed = true;
  if (done.wrote_output && peer.log) peer.log->show();
  Task& task = *tasks_.at(done.id);
  if (task.spec.kind == TaskKind::kTask && done.outcome.ok) {
    if (run_time_.size() > 10000) run_time_.clear();
    double& average = run_time_.try_emplace(function_key(task.spec.function), 1e9).first->second;
    average = average == 1e9 ? static_cast<double>(done.run_nanoseconds)
                             : 0.8 * average + 0.2 * static_cast<double>(done.run_nanoseconds);
  }

  ObjectId actor_id = peer.actor;
  if (task.spec.kind == TaskKind::kActorCreate) {
    bool ok = done.outcome.ok;
    ErrorInfo error = done.outcome.error;
    finish_task(done.id, std::move(done.outcome));
    auto actor = actors_.find(actor_id);
    if (actor != actors_.end()) on_actor_created(*actor->second, ok, error);
    return;
  }
  bool again = !done.outcome.ok && task.spec.retry_exceptions && !task.cancelled &&
               task.attempts <= task.spec.max_retries;
  if (again) {
    task.state = Task::kQueued;
    ready_.push_front(done.id, task.spec.depth, need_of(task.spec));
  } else {
    finish_task(done.id, std::move(done.outcome));
  }
  if (actor_id != 0) {
    auto actor = actors_.find(actor_id);
    if (actor != actors_.end()) send_calls(*actor->second);
  } else if (peer.assigned.empty()) {
    make_idle(peer);
  } else {
    open_pipeline(peer);
  }
}

// How many of them it had.
size_t Hub::on_tasks_returned(Peer& peer, const std::vector<ObjectId>& ids) {
  size_t count = 0;
  for (auto id = ids.rbegin(); id != ids.rend(); ++id) {
    if (std::erase(peer.assigned, *id) == 0) continue;
    ++count;
    Task& task = *tasks_.at(*id);
    if (task.cancelled) {
      finish_task(*id, Outcome::failed(ErrorKind::kCancelled, ""));
      continue;
    }
    --task.attempts;
    task.state = Task::kQueued;
    if (peer.actor != 0) {
      actors_.at(peer.actor)->waiting[task.submitter].push_front(*id);
    } else {
      ready_.push_front(*id, task.spec.depth, need_of(task.spec));
    }
  }
  return count;
}

// The first of its tasks ran, or was about to; the others had not begun and are sent elsewhere as
// if for the first time.
void Hub::on_worker_lost(Peer& peer, const std::string& how) {
  if (peer.assigned.empty()) return;
  std::vector<ObjectId> others(peer.assigned.begin() + 1, peer.assigned.end());
  on_tasks_returned(peer, others);
  ObjectId id = peer.assigned.front();
  peer.assigned.clear();
  Task& task = *tasks_.at(id);
  if (!task.cancelled && task.attempts <= task.spec.max_retries) {
    log_info(lost_message(peer, str("task '", task_name(task.spec), "' is run again"), how));
    task.state = Task::kQueued;
    ready_.push_front(id, task.spec.depth, need_of(task.spec));
    return;
  }
  finish_task(
      id, Outcome::failed(ErrorKind::kWorkerLost,
                          lost_message(peer,
                                       str("task '", task_name(task.spec), "' was lost in attempt ",
                                           task.attempts, " of ", task.spec.max_retries + 1),
                                       how)));
}

void Hub::on_worker_start_failed(const std::string& why) {
  start_timer_ = loop_.after(kStartPause, [this] {
    auto done = std::move(start_timer_);
    dispatch();
  });
  if (++start_failures_ < kMaxStartFailures) return;
  start_failures_ = 0;
  give_up_on_workers(why);
}

void Hub::give_up_on_workers(const std::string& why) {
  log_error("workers cannot be started: " + why);
  // Those that are there may still get the work done, unless all of them wait for it.
  bool others = std::any_of(peers_.begin(), peers_.end(), [](const auto& entry) {
    const Peer& peer = *entry.second;
    return peer.index != 0 && peer.actor == 0 && peer.channel && !peer.blocked && !peer.ending;
  });
  if (others) return;
  // Nothing suggests that another try would go better: whoever waits for a worker is told.
  Outcome failed =
      Outcome::failed(ErrorKind::kWorkerLost, "no worker process could be started: " + why);
  for (TaskQueue::Shape* shape : ready_.shapes()) {
    while (!shape->empty()) {
      ObjectId id = shape->front();
      ready_.pop_front(*shape);
      auto actor = actors_.find(id);
      if (actor != actors_.end()) {
        end_actor(*actor->second, failed.error);
      } else {
        finish_task(id, failed);
      }
    }
  }
}

void Hub::cancel(ObjectId id, bool force) {
  std::vector<ObjectId> to_cancel{id};
  while (!to_cancel.empty()) {
    ObjectId next = to_cancel.back();
    to_cancel.pop_back();
    auto children = children_.find(next);
    if (children != children_.end()) {
      to_cancel.insert(to_cancel.end(), children->second.begin(), children->second.end());
    }
    auto found = tasks_.find(next);
    if (found == tasks_.end() || (found->second->cancelled && !force)) continue;
    Task& task = *found->second;
    auto cancelled = [&] {
      return Outcome::failed(ErrorKind::kCancelled,
                             str("task '", task_name(task.spec), "' was cancelled"));
    };
    if (task.spec.kind == TaskKind::kActorCreate) continue;
    if (task.state != Task::kSent) {
      if (task.spec.kind == TaskKind::kActorCall) {
        auto actor = actors_.find(task.spec.actor);
        if (actor != actors_.end()) {
          std::erase(actor->second->waiting[task.submitter], next);
          finish_task(next, cancelled());
          send_calls(*actor->second);  // those behind it need not wait for its arguments
          continue;
        }
      } else if (task.state == Task::kQueued) {
        ready_.remove(next, task.spec.depth, need_of(task.spec));
      }
      finish_task(next, cancelled());
      continue;
    }
    if (!task.cancelled) objects_.finish(next, cancelled());
    task.cancelled = true;
    // The process decides: it knows whether it is at this task. Stuck, it is ended after a while.
    bool end_process = force && task.spec.kind == TaskKind::kTask;
    Peer& peer = *peers_.at(task.peer);
    tell(peer, CancelRunning{next, end_process});
    if (end_process) peer.deadline = kill_if_still_at(next, peer.index);
  }
}

std::unique_ptr<EventLoop::Timer> Hub::kill_if_still_at(ObjectId task, uint32_t index) {
  return loop_.after(kForceGrace, [this, task, index] {
    auto peer = peers_.find(index);
    if (peer == peers_.end() || peer->second->assigned.empty()) return;
    if (peer->second->assigned.front() == task) kill_process(*peer->second);
  });
}

// A process has gone, and with it the tasks that only it wanted. If it is run again, so are they.
void Hub::abandon_children(uint32_t submitter) {
  std::vector<ObjectId> children;
  for (const auto& [id, task] : tasks_) {
    if (task->submitter == submitter && task->spec.kind == TaskKind::kTask &&
        !objects_.contains(id)) {
      children.push_back(id);
    }
  }
  for (ObjectId id : children) cancel(id, true);
}

}  // namespace manta
