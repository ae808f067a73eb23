#include <fcntl.h>
#include <signal.h>
#include <sys/socket.h>

#include <cctype>

#include "manta/base/log.h"
#include "manta/core/hub_internal.h"

namespace manta {
namespace {

constexpr size_t kMaxHello = 4096;  // a stranger cannot make the driver allocate more
constexpr std::chrono::seconds kStartDeadline{60};
constexpr std::chrono::seconds kExitDeadline{
    5};  // from the end of a channel to the end of its process
constexpr std::chrono::milliseconds kLookAfter{20};
constexpr std::chrono::seconds kIdleLimit{1};

bool same_secret(const std::string& a, const std::string& b) {
  if (a.size() != b.size()) return false;
  unsigned char difference = 0;
  for (size_t i = 0; i < a.size(); ++i) difference |= static_cast<unsigned char>(a[i] ^ b[i]);
  return difference == 0;
}

}  // namespace

Hub::Hub(HubOptions options)
    : options_(std::move(options)),
      ledger_(options_.resources),
      objects_({.answer =
                    [this](uint32_t peer, ObjectReady message) {
                      auto found = peers_.find(peer);
                      if (found != peers_.end()) tell(*found->second, std::move(message));
                    },
                .dependency_ready = [this](ObjectId task) { dependency_ready_.push_back(task); },
                .freed =
                    [this](ObjectId id) {
                      if (!actors_.contains(id)) return;
                      unreferenced_.push_back(
                          id);  // later: whoever let go may still be at work on it
                      request_dispatch();
                    }}) {
  auto driver = std::make_unique<Peer>();
  driver->name = "driver";
  peers_[0] = std::move(driver);
  acceptor_.assign(boost::asio::local::stream_protocol(),
                   listen_unix(options_.address.socket_path).release());
  logs_ = std::make_unique<WorkerLogs>(loop_, options_.log_to_driver);
  engine_ =
      std::make_unique<LocalEngine>(loop_,
                                    LocalEngineOptions{options_.resources, options_.address,
                                                       options_.session_folder, options_.argv},
                                    *this);
  accept();
  thread_ = std::thread([this] { run(); });
}

Hub::~Hub() { stop(); }

void Hub::run() {
  // Signals are for the program's own threads.
  sigset_t all;
  ::sigfillset(&all);
  ::pthread_sigmask(SIG_BLOCK, &all, nullptr);
  ::pthread_setname_np(::pthread_self(), "manta:hub");
  loop_.context.run();
}

void Hub::stop() {
  if (!thread_.joinable()) return;
  {
    std::lock_guard lock(loop_.mutex);
    stopping_ = true;
    look_after_timer_.reset();
    bool actors = false;
    for (auto& [index, peer] : peers_) {
      if (!peer->channel) continue;
      // An actor may finish what it does and run its destructor; a task's result has nobody left to
      // get it.
      if (peer->actor != 0 || peer->assigned.empty()) tell(*peer, Exit{});
      actors = actors || peer->actor != 0;
    }
    // Otherwise on_exited ends the loop with the last actor.
    auto grace = actors ? options_.actor_grace : std::chrono::milliseconds(0);
    stop_timer_ = loop_.after(grace, [this] { loop_.context.stop(); });
  }
  thread_.join();
  acceptor_.close();
  for (auto& [index, peer] : peers_) {
    if (peer->channel) peer->channel->flush_and_close();
  }
  engine_->shutdown();
  for (auto& [index, peer] : peers_) {
    if (peer->log) logs_->finish(std::move(peer->log));
  }
  logs_->stop();
  // A reference that outlives the run must not keep its objects.
  peers_.clear();
  tasks_.clear();
  actors_.clear();
  objects_.clear();
  if (driver_client_) driver_client_->on_closed("Manta was shut down");
  driver_client_.reset();
}

// ---- Messages

void Hub::post(ToHub message) {
  std::lock_guard lock(loop_.mutex);
  if (stopping_) return;
  bool only_objects =
      std::holds_alternative<Fetch>(message) || std::holds_alternative<Release>(message) ||
      std::holds_alternative<Watch>(message) || std::holds_alternative<Put>(message);
  handle(*peers_.at(0), std::move(message));
  if (!only_objects) dispatch();
}

void Hub::tell(Peer& peer, const FromHub& message) {
  if (peer.index == 0) {
    if (auto* ready = std::get_if<ObjectReady>(&message)) driver_client_->on_object_ready(*ready);
    if (auto* answer = std::get_if<Answer>(&message)) driver_client_->on_answer(*answer);
  } else if (peer.channel) {
    std::visit([&](const auto& inner) { encode_message<FromHub>(peer.channel->out(), inner); },
               message);
  }
}

void Hub::answer(Peer& peer, uint64_t request, Outcome outcome, std::string text, uint64_t id) {
  tell(peer, Answer{request, std::move(outcome), std::move(text), id, {}});
}

// A process chooses ids of its own only, and each once. One that does not is broken, and is ended.
void Hub::check_new(const Peer& peer, ObjectId id) const {
  if (id >> kObjectCounterBits != peer.index || tasks_.contains(id) || objects_.contains(id)) {
    throw Error(ErrorKind::kCorrupt,
                str("it chose the object id ", id, ", which is not its to choose"));
  }
}

void Hub::check_spec(const TaskSpec& spec) const {
  if (spec.parent == spec.id || spec.max_retries < 0 || spec.max_restarts < 0 ||
      (spec.kind != TaskKind::kActorCall &&
       (!is_valid(spec.resources) || !is_possible(spec.resources, ledger_.total())))) {
    throw Error(ErrorKind::kCorrupt, str("it asked for an impossible task '", spec.name, "'"));
  }
}

void Hub::handle(Peer& peer, ToHub message) {
  Outcome good;
  good.ok = true;
  // What a process holds is let go when it ends; the driver ends last, and need not be counted.
  auto hold = [&](ObjectId id) {
    if (peer.index != 0) ++peer.refs[id];
  };
  if (auto* submitted = std::get_if<Submit>(&message)) {
    check_new(peer, submitted->spec.id);
    check_spec(submitted->spec);
    hold(submitted->spec.id);
    submit(peer, std::move(submitted->spec));
  } else if (auto* done = std::get_if<TaskDone>(&message)) {
    on_task_done(peer, std::move(*done));
  } else if (auto* release = std::get_if<Release>(&message)) {
    if (peer.index != 0) {
      auto found = peer.refs.find(release->id);
      if (found == peer.refs.end()) return;
      if (--found->second == 0) peer.refs.erase(found);
    }
    objects_.release(release->id);
  } else if (auto* fetch = std::get_if<Fetch>(&message)) {
    objects_.fetch(fetch->id, peer.index);
  } else if (auto* watch = std::get_if<Watch>(&message)) {
    objects_.watch(watch->id, peer.index);
  } else if (auto* put = std::get_if<Put>(&message)) {
    check_new(peer, put->id);
    hold(put->id);
    objects_.create(put->id);
    good.value = std::move(put->value);
    objects_.finish(put->id, std::move(good));
  } else if (auto* add = std::get_if<AddRef>(&message)) {
    if (!objects_.contains(add->id)) return;
    hold(add->id);
    objects_.add_ref(add->id);
  } else if (auto* blocked = std::get_if<Blocked>(&message)) {
    on_tasks_returned(peer, blocked->returned);
    if (peer.blocked) return;
    peer.blocked = true;
    if (peer.grant) ledger_.pause_cpus(*peer.grant);
    if (peer.counts_as_free) --free_running_;
  } else if (std::holds_alternative<Unblocked>(message)) {
    if (!peer.blocked) return;
    peer.blocked = false;
    if (peer.grant) ledger_.resume_cpus(*peer.grant);
    if (peer.counts_as_free) ++free_running_;
  } else if (auto* returned = std::get_if<Returned>(&message)) {
    peer.recalled = false;
    bool any = on_tasks_returned(peer, returned->tasks) > 0;
    if (any && peer.actor == 0 && peer.assigned.empty()) make_idle(peer);
  } else if (auto* request = std::get_if<CancelTask>(&message)) {
    auto task = tasks_.find(request->id);
    if (request->force && task != tasks_.end() && task->second->spec.kind != TaskKind::kTask) {
      return answer(
          peer, request->request,
          Outcome::failed(
              ErrorKind::kInvalidArgument,
              "cancel with force ends a task's process; an actor has calls of others too: use "
              "kill(actor), or cancel without force"));
    }
    cancel(request->id, request->force);
    answer(peer, request->request, std::move(good));
  } else if (auto* named = std::get_if<CreateNamed>(&message)) {
    if (actor_names_.contains(named->spec.actor_name)) {
      return answer(
          peer, named->request,
          Outcome::failed(ErrorKind::kInvalidArgument,
                          str("an actor named '", named->spec.actor_name,
                              "' lives already; choose another name, or find it with get_actor")));
    }
    check_new(peer, named->spec.id);
    check_spec(named->spec);
    hold(named->spec.id);
    answer(peer, named->request, std::move(good));
    submit(peer, std::move(named->spec));
  } else if (auto* kill = std::get_if<KillActor>(&message)) {
    kill_actor(kill->id, kill->may_restart, "was killed by manta::kill");
  } else if (auto* find = std::get_if<FindActor>(&message)) {
    auto found = actor_names_.find(find->name);
    if (found == actor_names_.end() || !objects_.contains(found->second)) {
      return answer(peer, find->request,
                    Outcome::failed(ErrorKind::kNotFound,
                                    str("no living actor is named '", find->name, "'")));
    }
    const std::string& type = actors_.at(found->second)->create.actor_type;
    if (type != find->type) {
      return answer(peer, find->request,
                    Outcome::failed(ErrorKind::kInvalidArgument,
                                    str("actor '", find->name, "' is a ", demangle(type.c_str()),
                                        ", not a ", demangle(find->type.c_str()))));
    }
    hold(found->second);
    objects_.add_ref(found->second);
    answer(peer, find->request, std::move(good), {}, found->second);
  } else if (auto* ask = std::get_if<AskWhy>(&message)) {
    answer(peer, ask->request, std::move(good), why_waits(ask->id));
  } else if (auto* available = std::get_if<AskAvailable>(&message)) {
    tell(peer, Answer{available->request, std::move(good), {}, 0, ledger_.available()});
  } else if (auto* detached = std::get_if<StartDetached>(&message)) {
    start_detached(peer, std::move(*detached));
  }
}

void Hub::request_dispatch() {
  if (dispatch_posted_) return;
  dispatch_posted_ = true;
  loop_.post([this] {
    dispatch_posted_ = false;
    dispatch();
  });
}

void Hub::dispatch() {
  if (stopping_) return;
  // A task whose dependency failed fails too, and may have dependents of its own: a list, not
  // recursion.
  while (!dependency_ready_.empty() || !unreferenced_.empty()) {
    if (!dependency_ready_.empty()) {
      auto task = tasks_.find(dependency_ready_.front());
      dependency_ready_.pop_front();
      if (task != tasks_.end()) dependency_ready(*task->second);
    } else {
      ObjectId actor = unreferenced_.front();
      unreferenced_.pop_front();
      on_actor_unreferenced(actor);
    }
  }
  dispatch_tasks();
  arm_look_after();
}

// ---- Connections

void Hub::accept() {
  acceptor_.async_accept(
      [this](boost::system::error_code error, boost::asio::local::stream_protocol::socket socket) {
        std::lock_guard lock(loop_.mutex);
        if (!acceptor_.is_open() || stopping_) return;
        if (!error) {
          on_connection(UniqueFd(socket.release()));
          return accept();
        }
        // Too many open files, most likely: again when some may have been closed.
        log_warning("a process cannot connect: " + error.message());
        accept_timer_ = loop_.after(std::chrono::milliseconds(100), [this] { accept(); });
      });
}

void Hub::on_connection(UniqueFd socket) {
  auto channel = std::make_shared<AsyncChannel>(loop_, std::move(socket), kMaxHello);
  std::weak_ptr<AsyncChannel> weak = channel;
  std::shared_ptr<EventLoop::Timer> timer = loop_.after(options_.hello_deadline, [weak] {
    auto channel = weak.lock();
    if (!channel) return;
    log_warning("a connection that did not say what it is was closed");
    channel->close();
  });
  channel->start(
      [this, weak, timer](Frame& frame) {
        auto channel = weak.lock();
        ToHub message = decode_message<ToHub>(frame);
        auto* hello = std::get_if<Hello>(&message);
        if (!hello) throw Error(ErrorKind::kCorrupt, "its first message is no greeting");
        on_hello(channel, *hello);
      },
      [timer](const std::string& why) {
        if (!why.empty()) log_warning("a connection was refused: " + why);
      });
}

void Hub::on_hello(const std::shared_ptr<AsyncChannel>& channel, const Hello& hello) {
  auto reject = [&](const std::string& why) {
    log_warning("a connection was refused: " + why);
    encode_message<FromHub>(channel->out(), Rejected{why});
    channel->flush_and_close();
  };
  if (!same_secret(hello.token, options_.address.token)) return reject("wrong token");
  if (hello.build_id != program_build_id()) {
    return reject(str("the process is of build ", to_hex(hello.build_id), ", this run is of build ",
                      to_hex(program_build_id()), "; run the same binary everywhere"));
  }
  auto found = peer_of_process_.find(hello.process);
  if (found == peer_of_process_.end() || peers_.at(found->second)->channel) {
    return reject(str("no process ", hello.process, " is expected"));
  }
  Peer& peer = *peers_.at(found->second);
  peer.deadline.reset();
  peer.channel = channel;
  channel->set_max_body(kMaxFrameBody);
  uint32_t index = peer.index;
  channel->start([this, index](Frame& frame) { on_peer_frame(index, frame); },
                 [this, index](const std::string& why) {
                   auto found = peers_.find(index);
                   if (found == peers_.end()) return;
                   Peer& peer = *found->second;
                   if (!why.empty()) {
                     log_error(str("process ", peer.name, ": ", why));
                     return kill_process(peer);
                   }
                   std::erase(idle_, index);
                   // Its end is on its way; a process that only closed its channel is helped along.
                   peer.deadline = kill_after(kExitDeadline, index);
                 });
  tell(peer, Welcome{peer.index, ledger_.total()});
  if (peer.actor == 0) {
    --starting_;
    start_failures_ = 0;
    make_idle(peer);
  } else {
    auto create = tasks_.find(peer.actor);  // gone if nobody wants the actor any more
    if (create == tasks_.end() || !send_run(*create->second, peer)) kill_process(peer);
  }
  request_dispatch();
}

void Hub::on_peer_frame(uint32_t index, Frame& frame) {
  auto found = peers_.find(index);
  if (found == peers_.end()) return;
  handle(*found->second, decode_message<ToHub>(frame));
  request_dispatch();
}

// ---- Processes

Hub::Peer* Hub::start_process(const std::string& name, ObjectId actor) {
  auto peer = std::make_unique<Peer>();
  peer->index = next_index_++;
  peer->actor = actor;
  peer->name = name;
  peer->log = std::make_unique<WorkerLog>(*logs_, name, options_.log_folder + "/" + name + ".log");
  ProcessSpec spec;
  spec.name = name;
  spec.log_path = peer->log->path();
  peer->process = engine_->start({spec}).front();
  uint32_t index = peer->index;
  peer->deadline = kill_after(kStartDeadline, index);
  peer_of_process_[peer->process] = index;
  return (peers_[index] = std::move(peer)).get();
}

void Hub::on_started(ProcessId process, pid_t pid) {
  if (auto detached = detached_starts_.find(process); detached != detached_starts_.end()) {
    auto [index, request] = detached->second;
    detached_starts_.erase(detached);
    Outcome good;
    good.ok = true;
    if (peers_.contains(index))
      answer(*peers_.at(index), request, std::move(good), {}, static_cast<uint64_t>(pid));
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
      if (peers_.contains(index))
        answer(*peers_.at(index), request, Outcome::failed(ErrorKind::kResources, why));
      continue;
    }
    auto found = peer_of_process_.find(process);
    if (found == peer_of_process_.end()) continue;
    Peer& peer = *peers_.at(found->second);
    if (peer.actor != 0) {
      on_actor_lost(peer, "could not be started: " + why);
    } else {
      --starting_;
      on_worker_start_failed(why);
    }
    remove_peer(peer);
  }
  request_dispatch();
}

void Hub::on_exited(const ProcessExit& exit) {
  auto found = peer_of_process_.find(exit.process);
  if (found == peer_of_process_.end()) return;
  uint32_t index = found->second;
  if (peers_.at(index)->channel)
    peers_.at(index)->channel->drain();  // what it said before it ended
  Peer& peer = *peers_.at(index);
  bool counts = exit.lost_with == 0 || exit.lost_with != last_counted_loss_;
  if (exit.lost_with != 0) last_counted_loss_ = exit.lost_with;
  if (peer.actor != 0) {
    on_actor_lost(peer, exit.describe());
  } else if (!peer.channel) {
    --starting_;
    if (counts)
      on_worker_start_failed(str("process ", peer.name, " ", exit.describe(),
                                 " before it had joined the run. Its log:\n", peer.log->tail()));
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

void Hub::kill_process(Peer& peer) { engine_->stop(peer.process, std::chrono::milliseconds(0)); }

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
  peer.idle_since = Clock::now();
  idle_.push_back(peer.index);
}

void Hub::remove_peer(Peer& peer) {
  release_grant(peer);
  if (peer.channel) peer.channel->close();
  std::erase(idle_, peer.index);
  peer_of_process_.erase(peer.process);
  auto owned = std::move(peers_.at(peer.index));
  peers_.erase(owned->index);
  objects_.forget_peer(owned->index);
  for (const auto& [id, count] : owned->refs) {
    for (int i = 0; i < count; ++i) objects_.release(id);
  }
  if (!stopping_ && !owned->ending) abandon_children(owned->index);
}

void Hub::start_detached(Peer& peer, StartDetached request) {
  if (request.spec.args.memory || !request.spec.args.refs.empty() ||
      !request.spec.ref_args.empty()) {
    return answer(
        peer, request.request,
        Outcome::failed(
            ErrorKind::kInvalidArgument,
            "a detached process outlives this run, so its arguments can be neither references "
            "nor over 100 KB: pass the path of a file instead"));
  }
  ProcessSpec spec;
  spec.name = "manta:detached";
  spec.log_path = request.log_path;
  OutArchive archive(spec.detached_call);
  archive(request.spec);
  ProcessId process = engine_->start({spec}).front();
  detached_starts_[process] = {peer.index, request.request};
}

// Now and then while there is something to see to: calls that wait behind a long one, workers that
// nobody needs.
void Hub::arm_look_after() {
  if (look_after_timer_ || stopping_) return;
  bool needed = static_cast<double>(idle_.size()) > std::max(1.0, ledger_.total().cpus);
  for (auto& [index, peer] : peers_) {
    if (needed) break;
    needed = peer->actor == 0 && peer->assigned.size() > 1;
  }
  if (!needed) return;
  look_after_timer_ = loop_.after(kLookAfter, [this] {
    auto done = std::move(look_after_timer_);
    look_after_processes();
    arm_look_after();
  });
}

void Hub::look_after_processes() {
  for (auto& [index, peer] : peers_) {
    if (peer->actor != 0 || peer->assigned.size() < 2) continue;
    if (!peer->progressed && !peer->recalled) {
      peer->recalled = true;
      tell(*peer, Recall{});
    }
    peer->progressed = false;
  }
  auto keep = static_cast<size_t>(std::max(1.0, ledger_.total().cpus));
  auto now = Clock::now();
  while (idle_.size() > keep && now - peers_.at(idle_.front())->idle_since > kIdleLimit) {
    Peer& peer = *peers_.at(idle_.front());
    idle_.erase(idle_.begin());
    peer.ending = true;
    tell(peer, Exit{});
  }
}

std::string Hub::lost_message(const Peer& peer, const std::string& what,
                              const std::string& how) const {
  std::string message = str(what, ": its process ", peer.name, " (pid ", peer.pid, ") ", how);
  std::string tail = peer.log ? peer.log->tail() : "";
  if (!tail.empty()) message += ". The end of its log:\n" + tail;
  return message;
}

}  // namespace manta
