#include <algorithm>

#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/core/how_it_ended_internal.h"
#include "manta/core/init.h"
#include "manta/serve/replica_frames_internal.h"
#include "manta/serve/served_deployment_internal.h"

namespace manta::serve {
namespace {

// How long it may take, from the end of its connection, until it is known how a process ended:
// writing the report of a crash takes a while.
constexpr std::chrono::seconds kExitDeadline{5};

// Leaves out the stack, which is in the replica's log, too.
std::string how_replica_ended(const ObjectRef<void>& run) {
  try {
    get(run, std::chrono::seconds(0));
    return "its process ended";
  } catch (const Error& error) {
    std::string message = how_it_ended(error);
    return message.substr(0, message.find(". Its stack:"));
  }
}

}  // namespace

ServedDeployment::ServedDeployment(Front& front, std::string name, uint64_t number)
    : front_(front), name_(std::move(name)), number_(number), next_request_(number << 40) {}

ServedDeployment::~ServedDeployment() {
  for (auto& [id, process] : processes_) {
    if (process->work) process->work->close();
    if (process->health) process->health->close();
    front_.forget_replica(process->number);
  }
}

const DeploySpec& ServedDeployment::current() const {
  return specs_.at(ready_ ? serving_generation_ : generation_);
}

const std::string& ServedDeployment::route() const { return options().route_prefix; }

void ServedDeployment::deploy(DeploySpec spec, Done done) {
  int generation = ++generation_;
  deploys_[generation] = std::move(done);
  deploy_timers_[generation] = front_.loop().after(
      spec.options.deploy_timeout, [this, generation] { on_deploy_late(generation); });
  int count = spec.options.num_replicas;
  specs_[generation] = std::move(spec);
  if (!ready_) queue_.set_policy(policy_of(options()));
  replicas_.update(generation, count);
  act();
}

void ServedDeployment::on_deploy_late(int generation) {
  if (!replicas_.updating() || generation != generation_) return;
  std::string why = str("not all replicas were healthy within ",
                        specs_.at(generation).options.deploy_timeout.count(),
                        " ms (DeploymentOptions::deploy_timeout)");
  for (const auto& [id, process] : processes_) {
    if (process->generation != generation || process->state != Process::kStarting) continue;
    why +=
        str("; replica ", id, ": ",
            process->work ? "it is loading the model" : detail::why_waits(process->actor.handle()));
  }
  failure_kind_ = ErrorKind::kTimeout;
  replicas_.give_up(why);
  act();
}

// Performs the policy's actions, until it has no more.
void ServedDeployment::act() {
  if (std::exchange(acting_, true)) return;
  while (true) {
    bool room = !replicas_.updating() || Front::has_room(specs_.at(generation_).options.resources);
    auto actions = replicas_.decide(Clock::now(), room);
    if (actions.empty()) break;
    for (const auto& action : actions) {
      if (auto* start = std::get_if<StartReplica>(&action))
        start_replica(start->id, start->generation);
      if (auto* drain = std::get_if<DrainReplica>(&action)) drain_replica(drain->id);
      if (auto* ended = std::get_if<UpdateEnded>(&action)) on_update_ended(*ended);
    }
  }
  acting_ = false;
  decide_timer_.reset();
  if (auto at = replicas_.next_decision_at()) {
    decide_timer_ = front_.loop().after(*at - Clock::now(), [this] { act(); });
  }
  queue_.set_replicas(replicas_.serving());
  check_removed();
}

void ServedDeployment::start_replica(ReplicaId id, int generation) {
  const DeploySpec& spec = specs_.at(generation);
  auto process = std::make_unique<Process>();
  process->id = id;
  process->generation = generation;
  process->number = front_.expect_replica(*this);
  try {
    ActorOptions actor_options;
    actor_options.labels = {{"role", "driver"}};  // it meets the front at a socket in its folder
    actor_options.resources = spec.options.resources;
    actor_options.process_name = str(name_, "-", id);
    process->actor = actor<Replica>(actor_options);
    process->run = process->actor.call<&Replica::run>(front_.replica_address(),
                                                      front_.replica_token(), process->number);
  } catch (const Error& error) {
    front_.forget_replica(process->number);
    failure_kind_ = error.kind();
    replicas_.on_load_failed(id, error.what());
    replicas_.on_lost(id, error.what(), Clock::now());
    return;
  }
  process->deadline = front_.loop().after(spec.options.deploy_timeout, [this, id] {
    kill_replica(id, "it did not load its model within DeploymentOptions::deploy_timeout");
  });
  on_ready(process->run, [post = front_.poster(), alive = std::weak_ptr<int>(alive_), this, id] {
    post([alive, this, id] {
      if (!alive.expired()) on_exited(id);
    });
  });
  processes_[id] = std::move(process);
  if (!health_timer_) arm_health();
}

void ServedDeployment::on_joined(uint64_t number, bool for_health, int64_t pid,
                                 const std::shared_ptr<AsyncChannel>& channel) {
  auto found = std::find_if(processes_.begin(), processes_.end(),
                            [&](const auto& each) { return each.second->number == number; });
  if (found == processes_.end() || found->second->draining)
    throw Error(ErrorKind::kNotFound, "this replica is not wanted any more");
  auto& [id, process] = *found;
  auto& place = for_health ? process->health : process->work;
  if (place) throw Error(ErrorKind::kCorrupt, "a replica joined twice");
  place = channel;
  channel->trust();
  if (for_health) {
    channel->start([raw = process.get()](Frame&) { raw->ping_open = false; },
                   [](const std::string&) {});
    return;
  }
  process->pid = pid;
  channel->start([this, id = id](Frame& frame) { on_frame(id, frame); },
                 [this, id = id](const std::string& why) {
                   auto closed = processes_.find(id);
                   // The reason why it failed to load is reported when its process has ended.
                   if (closed == processes_.end() || closed->second->state == Process::kStarting)
                     return;
                   if (why.empty()) return on_lost(id, "its connection closed");
                   kill_replica(id, why);
                 });
  const DeploySpec& spec = specs_.at(process->generation);
  Load load{spec.factory, spec.checkpoint, spec.adapter, spec.options.batching.max_rows};
  put_frame(channel->out(), ReplicaFrame::kLoad, load);
}

void ServedDeployment::on_frame(ReplicaId id, Frame& frame) {
  Process& process = *processes_.at(id);
  if (process.state == Process::kBusy) return on_answers(process, frame);
  if (process.state != Process::kStarting)
    throw Error(ErrorKind::kCorrupt, "a replica answers unasked");
  auto loaded = read_frame<Loaded>(frame, ReplicaFrame::kLoaded);
  process.deadline.reset();
  if (loaded.ok) {
    process.state = Process::kIdle;
    replicas_.on_ready(id);
    if (process.draining) stop(process);
  } else {
    failure_kind_ = loaded.kind;
    replicas_.on_load_failed(id, loaded.why);
    process.draining = process.stopped = true;  // it ends by itself
  }
  act();
  request_dispatch();
}

void ServedDeployment::drain_replica(ReplicaId id) {
  auto found = processes_.find(id);
  if (found == processes_.end()) return;
  Process& process = *found->second;
  process.draining = true;
  if (process.state == Process::kStarting) {
    // Its model is not needed any more.
    process.stopped = true;
    kill(process.actor);
    return;
  }
  process.deadline = front_.loop().after(options().graceful_shutdown_timeout, [this, id] {
    kill_replica(id, "it did not end within DeploymentOptions::graceful_shutdown_timeout");
  });
  if (process.state == Process::kIdle) stop(process);
}

void ServedDeployment::stop(Process& process) {
  process.stopped = true;
  put_frame(process.work->out(), ReplicaFrame::kStop);
  process.work->flush();
}

void ServedDeployment::kill_replica(ReplicaId id, const std::string& why) {
  auto found = processes_.find(id);
  if (found == processes_.end()) return;
  kill(found->second->actor);
  on_lost(id, why);
}

void ServedDeployment::on_lost(ReplicaId id, const std::string& why) {
  auto node = processes_.extract(id);
  if (node.empty()) return;
  Process& process = *node.mapped();
  if (process.work) process.work->close();
  if (process.health) process.health->close();
  front_.forget_replica(process.number);
  if (!process.stopped)
    log_warning(str("serve: replica ", id, " of '", name_, "' was lost: ", why));
  size_t waited = static_cast<size_t>(queue_.waiting());
  auto condemned = queue_.lost(process.batch);
  metrics_.retries += static_cast<size_t>(queue_.waiting()) - waited;
  Ending& ending = endings_[id];
  ending.actor = process.actor;
  ending.run = process.run;
  ending.condemned = std::move(condemned);
  ending.deadline = front_.loop().after(kExitDeadline, [this, id, why] {
    auto late = endings_.extract(id);
    kill(late.mapped().actor);
    condemn(late.mapped().condemned, why);
    check_removed();
  });
  if (process.state != Process::kStarting || !process.stopped)
    failure_kind_ = ErrorKind::kWorkerLost;
  replicas_.on_lost(id, why, Clock::now());
  act();
  request_dispatch();
}

void ServedDeployment::on_exited(ReplicaId id) {
  // Its last messages may not have been read yet: answers, or why its model cannot be loaded.
  if (auto found = processes_.find(id); found != processes_.end() && found->second->work) {
    auto work = found->second->work;
    work->drain();
  }
  if (auto found = processes_.find(id); found != processes_.end()) {
    on_lost(id, how_replica_ended(found->second->run));
  }
  auto ended = endings_.extract(id);
  if (ended.empty()) return;
  condemn(ended.mapped().condemned, how_replica_ended(ended.mapped().run));
  check_removed();
}

void ServedDeployment::on_update_ended(const UpdateEnded& ended) {
  deploy_timers_.erase(ended.generation);
  auto done = std::move(deploys_.extract(ended.generation).mapped());
  if (ended.ok) {
    ready_ = true;
    serving_generation_ = ended.generation;
    queue_.set_policy(policy_of(options()));
    std::erase_if(specs_, [&](const auto& each) { return each.first < ended.generation; });
    done(std::nullopt);
  } else {
    std::string kept = ready_ ? "; what was deployed before goes on serving" : "";
    Error error(failure_kind_, str("deploying '", name_, "': ", ended.why, kept));
    done(error);
    if (!ready_) remove([](const auto&) {});
  }
}

void ServedDeployment::remove(Done done) {
  removals_.push_back(std::move(done));
  if (!std::exchange(removing_, true)) {
    removal_timer_ = front_.loop().after(options().graceful_shutdown_timeout, [this] {
      for (RequestId id : queue_.clear()) {
        respond(id, {503, error_body(str("the deployment '", name_, "' was removed"))});
      }
      std::vector<ReplicaId> left;
      for (const auto& [id, process] : processes_) left.push_back(id);
      replicas_.drain();
      for (ReplicaId id : left) kill_replica(id, "the deployment was removed");
    });
  }
  if (!acting_) check_removed();
}

// First requests are answered, then the replicas end, then the deployment is gone.
void ServedDeployment::check_removed() {
  if (!removing_ || acting_) return;
  bool busy = std::any_of(processes_.begin(), processes_.end(),
                          [](const auto& each) { return each.second->state == Process::kBusy; });
  if (queue_.waiting() == 0 && !busy && replicas_.target() > 0) {
    replicas_.drain();
    return act();
  }
  if (!processes_.empty() || !endings_.empty() || removals_.empty()) return;
  removal_timer_.reset();
  front_.on_removed(*this, std::exchange(removals_, {}));
}

void ServedDeployment::arm_health() {
  health_timer_ = front_.loop().after(options().health_check_period, [this] { check_health(); });
}

void ServedDeployment::check_health() {
  auto now = Clock::now();
  std::map<ReplicaId, std::string> hung;
  for (auto& [id, process] : processes_) {
    if (process->ping_open && now - process->ping_sent > options().health_check_timeout) {
      hung[id] = "it did not answer health checks (DeploymentOptions::health_check_timeout)";
    } else if (process->state == Process::kBusy && now > process->batch_deadline) {
      hung[id] = "it worked on requests beyond their deadline (DeploymentOptions::request_timeout)";
    } else if (process->health && !process->ping_open) {
      process->ping_open = true;
      process->ping_sent = now;
      put_frame(process->health->out(), ReplicaFrame::kPing);
    }
  }
  for (const auto& [id, why] : hung) kill_replica(id, why);
  if (processes_.empty()) return health_timer_.reset();
  arm_health();
}

DeploymentStatus ServedDeployment::status() const {
  DeploymentStatus status;
  status.name = name_;
  status.url = front_.url() + route();
  status.predictor = current().factory.to_string();
  status.checkpoint = current().checkpoint;
  status.num_replicas = replicas_.serving();
  status.wanted_replicas = replicas_.target();
  status.queued_requests = queue_.waiting();
  status.replica_restarts = replicas_.restarts();
  status.state = removing_                                       ? "removing"
                 : replicas_.updating()                          ? "updating"
                 : status.num_replicas >= status.wanted_replicas ? "healthy"
                                                                 : "unhealthy";
  if (status.num_replicas < status.wanted_replicas) status.message = replicas_.trouble();
  for (const auto& [id, process] : processes_) {
    if (process->state != Process::kStarting && !process->draining)
      status.pids.push_back(process->pid);
  }
  return status;
}

void ServedDeployment::add_metrics(MetricsPage& page) const {
  page.add(name_, metrics_,
           {queue_.waiting(), replicas_.serving(), replicas_.target(), replicas_.restarts()});
}

}  // namespace manta::serve
