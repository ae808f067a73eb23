#include "manta/base/error_internal.h"
#include "manta/core/hub_internal.h"
#include "manta/core/resources_internal.h"

namespace manta {
namespace {

// Of the driver's messages that wait for the hub's thread. Whoever is that far ahead of it waits.
constexpr size_t kMostPutOff = 128;

Outcome good() {
  Outcome outcome;
  outcome.ok = true;
  return outcome;
}

}  // namespace

void Hub::post(ToHub&& message) {
  bool only_objects =
      std::holds_alternative<Fetch>(message) || std::holds_alternative<Release>(message) ||
      std::holds_alternative<Watch>(message) || std::holds_alternative<Put>(message);
  {
    std::unique_lock lock(loop_.mutex, std::try_to_lock);
    if (!lock && put_off(message)) return help();
    if (!lock) lock.lock();
    if (stopping_) return;
    handle_put_off();
    handle(*peers_.at(0), std::move(message));
    if (only_objects) return;
    if (dispatch_pause() > Clock::duration::zero()) {
      request_dispatch();
    } else {
      dispatch();
    }
  }
  help();  // what that left to do, unless the hub's thread is up
}

// To fall asleep over the lock and to be woken takes longer than a submission, and a hub that hears
// thousands of results a second holds it most of the time.
bool Hub::put_off(ToHub& message) {
  auto* submitted = std::get_if<Submit>(&message);
  bool may_wait = submitted ? submitted->spec.kind != TaskKind::kActorCreate
                            : std::holds_alternative<Fetch>(message) ||
                                  std::holds_alternative<Release>(message);
  if (!may_wait) return false;
  std::lock_guard lock(put_off_mutex_);
  if (!takes_put_off_ || put_off_.size() >= kMostPutOff) return false;
  put_off_.push_back(std::move(message));
  return true;
}

// Before anything else that the driver says: its messages are handled in order.
void Hub::handle_put_off() {
  {
    std::lock_guard lock(put_off_mutex_);
    if (put_off_.empty()) return;
    handled_.swap(put_off_);
  }
  if (!stopping_) {
    for (ToHub& message : handled_) handle(*peers_.at(0), std::move(message));
  }
  handled_.clear();
}

void Hub::answer(Peer& peer, uint64_t request, std::string text, uint64_t id) {
  tell(peer, Answer{request, good(), std::move(text), id, {}});
}

void Hub::refuse(Peer& peer, uint64_t request, ErrorKind kind, std::string why) {
  tell(peer, Answer{request, Outcome::failed(kind, std::move(why)), {}, 0, {}});
}

void Hub::handle(Peer& peer, ToHub&& message) {
  std::visit([&](auto& inner) { on(peer, std::move(inner)); }, message);
}

// ---- Tasks and objects

// A process chooses ids of its own only, and each once. One that does not is broken, and is ended.
void Hub::check_new(const Peer& peer, ObjectId id) const {
  if (id >> kObjectCounterBits != peer.index || tasks_.contains(id) || objects_.contains(id)) {
    throw Error(ErrorKind::kCorrupt,
                str("it chose the object id ", id, ", which is not its to choose"));
  }
}

void Hub::check_spec(const TaskSpec& spec) const {
  if (spec.parent == spec.id || spec.max_retries < 0 || spec.max_restarts < 0 ||
      !is_valid_concurrency(spec.max_concurrency) ||
      (spec.kind != TaskKind::kActorCall &&
       (!is_valid(spec.resources) || !is_valid(spec.labels)))) {
    throw Error(ErrorKind::kCorrupt, str("it asked for an impossible task '", spec.name, "'"));
  }
}

// What a process holds is let go when it ends; the driver ends last, and need not be counted.
void Hub::hold(Peer& peer, ObjectId id) {
  if (peer.index != 0) ++peer.refs[id];
}

void Hub::on(Peer& peer, Submit&& message) {
  check_new(peer, message.spec.id);
  check_spec(message.spec);
  adopt(message.spec.args);
  hold(peer, message.spec.id);
  submit(peer, std::move(message.spec));
}

void Hub::on(Peer& peer, Put message) {
  check_new(peer, message.id);
  adopt(message.value);
  hold(peer, message.id);
  objects_.create(message.id);
  Outcome outcome = good();
  outcome.value = std::move(message.value);
  objects_.finish(message.id, std::move(outcome));
}

void Hub::on(Peer& peer, AddRef message) {
  if (!objects_.contains(message.id)) return;
  hold(peer, message.id);
  objects_.add_ref(message.id);
}

void Hub::on(Peer& peer, Release message) {
  if (peer.index != 0) {
    auto found = peer.refs.find(message.id);
    if (found == peer.refs.end()) return;
    if (--found->second == 0) peer.refs.erase(found);
  }
  objects_.release(message.id);
}

void Hub::on(Peer& peer, Fetch message) {
  for (ObjectId id : message.ids) objects_.fetch(id, peer.index);
}

void Hub::on(Peer& peer, Watch message) {
  for (ObjectId id : message.ids) objects_.watch(id, peer.index);
}

void Hub::on(Peer& peer, TaskDone&& message) {
  adopt(message.outcome.value);
  on_task_done(peer, std::move(message));
}

void Hub::on(Peer& peer, Blocked message) {
  on_tasks_returned(peer, message.returned);
  if (peer.blocked) return;
  peer.blocked = true;
  close_pipeline(peer);
  if (peer.grant) ledger_.pause_cpus(*peer.grant);
  if (peer.counts_as_free) --free_running_;
}

void Hub::on(Peer& peer, Unblocked) {
  if (!peer.blocked) return;
  peer.blocked = false;
  if (peer.grant) ledger_.resume_cpus(*peer.grant);
  if (peer.counts_as_free) ++free_running_;
  open_pipeline(peer);
}

void Hub::on(Peer& peer, Returned message) {
  peer.recalled = false;
  bool any = on_tasks_returned(peer, message.tasks) > 0;
  if (any && peer.actor == 0 && peer.assigned.empty()) make_idle(peer);
  open_pipeline(peer);
}

// ---- Requests

void Hub::on(Peer& peer, CancelTask message) {
  auto task = tasks_.find(message.id);
  if (message.force && task != tasks_.end() && task->second->spec.kind != TaskKind::kTask) {
    return refuse(peer, message.request, ErrorKind::kInvalidArgument,
                  "cancel with force ends a task's process; an actor has calls of others too: use "
                  "kill(actor), or cancel without force");
  }
  cancel(message.id, message.force);
  answer(peer, message.request);
}

void Hub::on(Peer& peer, CreateNamed message) {
  if (actor_names_.contains(message.spec.actor_name)) {
    return refuse(peer, message.request, ErrorKind::kInvalidArgument,
                  str("an actor named '", message.spec.actor_name,
                      "' lives already; choose another name, or find it with get_actor"));
  }
  answer(peer, message.request);
  on(peer, Submit{std::move(message.spec)});
}

void Hub::on(Peer& peer, CreateGroup message) {
  std::vector<ObjectId> group;
  std::vector<Request> gang;
  if (message.specs.empty()) return;
  for (const TaskSpec& spec : message.specs) {
    check_new(peer, spec.id);
    check_spec(spec);
    if (spec.kind != TaskKind::kActorCreate || !spec.ref_args.empty() || !spec.actor_name.empty()) {
      throw Error(ErrorKind::kCorrupt, "it asked for a group of what are no plain actors");
    }
    group.push_back(spec.id);
    gang.push_back({spec.resources, spec.labels});
  }
  for (TaskSpec& spec : message.specs) {
    adopt(spec.args);
    hold(peer, spec.id);
    submit(peer, std::move(spec), group, std::exchange(gang, {}));
  }
  // A node may have gone since the process asked.
  const TaskSpec& first = tasks_.at(group.front())->spec;
  std::string why = why_impossible(requests_of(group), first.placement);
  if (!why.empty()) {
    end_actor(*actors_.at(group.front()),
              {ErrorKind::kResources, str("a group of actors '", task_name(first), "' ", why)});
  }
}

void Hub::on(Peer&, KillActor message) {
  kill_actor(message.id, message.may_restart, "was killed by manta::kill");
}

void Hub::on(Peer& peer, FindActor message) {
  auto found = actor_names_.find(message.name);
  if (found == actor_names_.end() || !objects_.contains(found->second)) {
    return refuse(peer, message.request, ErrorKind::kNotFound,
                  str("no living actor is named '", message.name, "'"));
  }
  const std::string& type = actors_.at(found->second)->create.actor_type;
  if (type != message.type) {
    return refuse(peer, message.request, ErrorKind::kInvalidArgument,
                  str("actor '", message.name, "' is a ", demangle(type.c_str()), ", not a ",
                      demangle(message.type.c_str())));
  }
  hold(peer, found->second);
  objects_.add_ref(found->second);
  answer(peer, message.request, {}, found->second);
}

void Hub::on(Peer& peer, AskWhy message) { answer(peer, message.request, why_waits(message.id)); }

void Hub::on(Peer& peer, AskNodes message) {
  tell(peer, Answer{message.request, good(), {}, 0, describe_nodes()});
}

void Hub::on(Peer& peer, AskPossible message) {
  std::vector<Request> asked;
  for (auto& [resources, labels] : message.asked) {
    if (!is_valid(resources) || !is_valid(labels)) {
      throw Error(ErrorKind::kCorrupt, "it asked whether an impossible amount is possible");
    }
    asked.push_back({std::move(resources), std::move(labels)});
  }
  answer(peer, message.request,
         message.nodes == WhichNodes::kPresent
             ? ledger_.why_impossible(asked, message.placement)
             : why_impossible(asked, message.placement, message.nodes == WhichNodes::kAll));
}

void Hub::on(Peer&, Hello) { throw Error(ErrorKind::kCorrupt, "it says hello twice"); }

}  // namespace manta
