#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

// Calls under way to one actor; the rest wait here, where they can still be cancelled.
constexpr size_t kMaxCallsSent = 1000;

// Part of a file name: what follows the namespaces, as far as it is harmless.
std::string plain(std::string name) {
  size_t scope = name.rfind("::");
  if (scope != std::string::npos) name.erase(0, scope + 2);
  for (char& c : name) {
    if (!std::isalnum(static_cast<unsigned char>(c)) && c != '-' && c != '_') c = '_';
  }
  return name.substr(0, 40);
}

}  // namespace

void Hub::add_actor(const TaskSpec& create, const std::vector<ObjectId>& group,
                    std::vector<Request> gang) {
  auto actor = std::make_unique<Actor>();
  actor->id = create.id;
  actor->create = create;
  actor->restarts_left = create.max_restarts;
  actor->group = group;
  actor->gang = std::move(gang);
  if (!create.actor_name.empty()) actor_names_[create.actor_name] = create.id;
  // Kept for restarts, beyond the first construction's own holds.
  for (ObjectId ref : create.args.refs) objects_.add_ref(ref);
  for (const auto& argument : create.ref_args) objects_.add_ref(argument.id);
  actors_[create.id] = std::move(actor);
}

// Its process is to be started.
Hub::Peer& Hub::place_actor(Task& create, Grant grant) {
  Actor& actor = *actors_.at(create.spec.id);
  actor.state = Actor::kStarting;
  std::string name = actor.create.process_name;
  if (name.empty()) name = str(plain(task_name(actor.create)), "-", next_worker_name_++);
  Peer& peer = add_process(grant.node, name, actor.id, actor.create.log_path);
  retire_idle_on(nodes_.at(grant.node), grant.gpu_ids);
  peer.grant = std::move(grant);
  peer.concurrency = static_cast<size_t>(actor.create.max_concurrency);
  actor.peer = peer.index;
  create.peer = peer.index;
  return peer;
}

bool Hub::start_group(const std::vector<ObjectId>& group) {
  auto grants = ledger_.acquire_gang(requests_of(group), tasks_.at(group.front())->spec.placement,
                                     group.front());
  if (!grants) return false;
  std::vector<Peer*> gang;
  for (size_t i = 0; i < group.size(); ++i) {
    actors_.at(group[i])->group.clear();
    gang.push_back(&place_actor(*tasks_.at(group[i]), std::move((*grants)[i])));
  }
  start_processes(gang);
  return true;
}

void Hub::on_actor_created(Actor& actor, bool ok, const ErrorInfo& error) {
  if (!ok) return end_actor(actor, error);
  if (actor.state != Actor::kStarting) return;  // killed meanwhile
  actor.state = Actor::kAlive;
  send_calls(actor);
}

void Hub::submit_call(Task& task) {
  auto found = actors_.find(task.spec.actor);
  if (found == actors_.end()) {
    return finish_task(task.spec.id, Outcome::failed(ErrorKind::kNotFound,
                                                     "a call on an actor that is not known"));
  }
  Actor& actor = *found->second;
  task.spec.max_retries = actor.create.max_retries;
  if (actor.state == Actor::kDead) return finish_task(task.spec.id, {false, {}, actor.death});
  actor.waiting[task.submitter].push_back(task.spec.id);
  send_calls(actor);
}

// In order for each caller: a call whose arguments are not there holds up the later ones of that
// caller only.
void Hub::send_calls(Actor& actor) {
  if (actor.state != Actor::kAlive) return;
  Peer& peer = *peers_.at(actor.peer);
  for (auto& [caller, calls] : actor.waiting) {
    while (!calls.empty() && peer.assigned.size() < kMaxCallsSent && !peer.channel->broken()) {
      ObjectId id = calls.front();
      Task& task = *tasks_.at(id);
      if (task.open_dependencies > 0) break;
      calls.pop_front();
      auto failed = std::find_if(task.spec.ref_args.begin(), task.spec.ref_args.end(),
                                 [&](const auto& argument) {
                                   const Outcome* outcome = objects_.outcome(argument.id);
                                   return !outcome || !outcome->ok;
                                 });
      if (failed == task.spec.ref_args.end()) {
        send_run(task, peer);
        continue;
      }
      const Outcome* outcome = objects_.outcome(failed->id);
      finish_task(
          id, outcome ? *outcome
                      : Outcome::failed(ErrorKind::kNotFound, "an argument's object is unknown"));
    }
  }
  std::erase_if(actor.waiting, [](const auto& entry) { return entry.second.empty(); });
}

void Hub::on_actor_lost(Peer& peer, const std::string& how) {
  auto found = actors_.find(peer.actor);
  if (found == actors_.end()) return;
  Actor& actor = *found->second;
  std::string name = task_name(actor.create);
  std::string message = lost_message(peer, str("actor '", name, "' was lost"),
                                     actor.killed.empty() ? how : actor.killed);
  bool constructing = !peer.assigned.empty() && peer.assigned.front() == actor.id;
  if (!constructing && !peer.assigned.empty()) {
    // Calls begin in order, so these were under way or about to be.
    auto begun = static_cast<std::ptrdiff_t>(std::min(peer.concurrency, peer.assigned.size()));
    on_tasks_returned(peer, {peer.assigned.begin() + begun, peer.assigned.end()});
    for (auto id = peer.assigned.rbegin(); id != peer.assigned.rend(); ++id) {
      Task& task = *tasks_.at(*id);
      if (!task.cancelled && task.attempts <= task.spec.max_retries && actor.restarts_left > 0) {
        task.state = Task::kQueued;
        actor.waiting[task.submitter].push_front(*id);
      } else {
        finish_task(*id,
                    Outcome::failed(ErrorKind::kWorkerLost, str("call '", task_name(task.spec),
                                                                "' was under way when ", message)));
      }
    }
  }
  peer.assigned.clear();
  if (actor.state == Actor::kDead) return fail_waiting(actor);
  if (actor.restarts_left <= 0 || stopping_)
    return end_actor(actor, {ErrorKind::kWorkerLost, message});

  --actor.restarts_left;
  actor.killed.clear();
  actor.state = Actor::kPending;
  log_info(message + "; it is started again");
  auto create = tasks_.find(actor.id);
  if (create == tasks_.end()) {
    // The construction was done once, and its task is gone: the same again, with holds of its own.
    auto owned = std::make_unique<Task>();
    owned->spec = actor.create;
    for (ObjectId ref : actor.create.args.refs) objects_.add_ref(ref);
    for (const auto& argument : actor.create.ref_args) objects_.add_ref(argument.id);
    create = tasks_.emplace(actor.id, std::move(owned)).first;
  }
  enqueue(*create->second);
}

void Hub::kill_actor(ObjectId id, bool may_restart, const std::string& why) {
  auto found = actors_.find(id);
  if (found == actors_.end() || found->second->state == Actor::kDead) return;
  Actor& actor = *found->second;
  if (!may_restart) actor.restarts_left = 0;
  actor.killed = why;
  if (actor.state == Actor::kPending) {
    if (may_restart) return;  // nothing runs that could be killed
    return end_actor(actor,
                     {ErrorKind::kWorkerLost, str("actor '", task_name(actor.create), "' ", why)});
  }
  kill_process(*peers_.at(actor.peer));
  actor.state = Actor::kEnding;  // later calls are for the next one
  // Known to be dead from here on, for names and new calls; the calls under way fail when the
  // process has ended.
  if (!may_restart) {
    end_actor(actor, {ErrorKind::kWorkerLost, str("actor '", task_name(actor.create), "' ", why)});
  }
}

// For good: fails what waits, frees the name, ends the process if there is one.
void Hub::end_actor(Actor& actor, ErrorInfo why) {
  bool has_process = actor.has_process();
  bool queued = actor.group.empty() || actor.group.front() == actor.id;
  Need need = need_of(actor.create);
  actor.state = Actor::kDead;
  actor.death = std::move(why);
  for (ObjectId id : std::exchange(actor.group, {})) {  // none starts without the others
    auto other = actors_.find(id);
    if (other != actors_.end() && other->second->state == Actor::kPending) {
      end_actor(*other->second, actor.death);
    }
  }
  auto name = actor_names_.find(actor.create.actor_name);
  if (name != actor_names_.end() && name->second == actor.id) actor_names_.erase(name);
  if (has_process && peers_.contains(actor.peer)) {
    Peer& peer = *peers_.at(actor.peer);
    std::erase(peer.assigned, actor.id);
    tell(peer, Exit{});
  }
  auto create = tasks_.find(actor.id);
  if (create != tasks_.end()) {
    if (create->second->state == Task::kQueued && !has_process && queued) {
      ready_.remove(actor.id, actor.create.depth, need);
    }
    finish_task(actor.id, {false, {}, actor.death});
  }
  fail_waiting(actor);
  for (ObjectId ref : actor.create.args.refs) objects_.release(ref);
  for (const auto& argument : actor.create.ref_args) objects_.release(argument.id);
  actor.create.args = {};
  actor.create.ref_args.clear();
}

void Hub::fail_waiting(Actor& actor) {
  auto waiting = std::move(actor.waiting);
  actor.waiting.clear();
  for (const auto& [caller, calls] : waiting) {
    for (ObjectId id : calls) finish_task(id, {false, {}, actor.death});
  }
}

// The last handle has gone, and with it the last call: each holds one.
void Hub::on_actor_unreferenced(ObjectId id) {
  auto found = actors_.find(id);
  if (found == actors_.end() || objects_.contains(id)) return;
  Actor& actor = *found->second;
  bool has_process = actor.has_process();
  if (actor.state != Actor::kDead) {
    end_actor(actor, {ErrorKind::kNotFound, "the actor has ended: its last handle was dropped"});
  }
  if (has_process && peers_.contains(actor.peer)) {
    // It was told to end, and is made to if it does not.
    peers_.at(actor.peer)->deadline = kill_after(options_.actor_grace, actor.peer);
  }
  actors_.erase(id);
}

}  // namespace manta
