// A group's processes: their start, their end, and the first messages to them. group_messages.cc
// handles their messages.

#include <algorithm>
#include <filesystem>

#include "manta/base/batch_work_internal.h"
#include "manta/base/error_internal.h"
#include "manta/base/log_internal.h"
#include "manta/base/start_thread_internal.h"
#include "manta/core/how_it_ended_internal.h"
#include "manta/core/init.h"
#include "manta/core/node_memory_internal.h"
#include "manta/io/collective_region_internal.h"
#include "manta/train/active_runs_internal.h"
#include "manta/train/group_internal.h"
#include "manta/train/started_workers_internal.h"

namespace manta::train {
namespace {

// How long a process that was killed may take to end: the kernel may have to write its core dump,
// or wait for a disk.
constexpr std::chrono::seconds kStopDeadline{30};
// How long a process whose loop has returned may take to be ready for another.
constexpr std::chrono::seconds kReturnDeadline{30};

GroupEntry make_entry(const Training& training, const Group::Plan& plan) {
  return {make_driver_entry("train", plan.run_folder), plan.attempt,
          training.run.collective_timeout.count()};
}

}  // namespace

Group::Group(const Training& training, Plan plan, EventQueue& events)
    : training_(training),
      plan_(std::move(plan)),
      events_(events),
      entry_(make_entry(training_, plan_)) {
  try {
    start();
  } catch (...) {
    stop();
    throw;
  }
}

Group::~Group() { stop(); }

void Group::start() {
  auto listens = [this](bool is_local) {
    return [this, is_local](const std::shared_ptr<AsyncChannel>& channel, Frame& frame) {
      on_first(channel, frame, is_local);
    };
  };
  std::vector<ActorOptions> options;
  {
    std::lock_guard lock(loop_.mutex);
    local_listener_ = std::make_unique<UnixListener>(loop_, entry_.driver.socket, listens(true));
    local_listener_->when_stuck([this] {
      Failure failure{kDriver, ErrorKind::kIo,
                      "the workers of a training group cannot connect to the driver (is the limit "
                      "of open files, ulimit -n, too low?)",
                      false};
      events_.push(Failed{plan_.attempt, std::move(failure)});
    });
    if (!entry_.driver.host.empty() && !plan_.in_driver) {
      tls_listener_ = std::make_unique<TlsListener>(
          loop_, TlsKey(entry_.driver.token), listen_tcp(entry_.driver.host, 0), listens(false));
      port_ = tls_listener_->address().port;
      mark_folder(entry_.driver);
    }
    for (int rank = 0; rank < training_.scaling.num_workers; ++rank) {
      seats_.push_back({rank, str("rank-", rank), {}});
      ActorOptions& each = options.emplace_back();
      each.resources = resources_of_worker(training_.scaling);
      each.placement = training_.scaling.placement_strategy;
    }
    // On one machine the reader starts with its workers. On other nodes, the workers' places must
    // be known first.
    bool is_here = plan_.in_driver || (entry_.driver.host.empty() && !training_.workers);
    if (!training_.datasets.empty() && is_here) {
      seats_.push_back({kDataReader, "data-reader", NodeId{0}});
      options.emplace_back().placement = training_.scaling.placement_strategy;
    }
    if (plan_.in_driver) {
      for (size_t i = 0; i < seats_.size(); ++i) start_thread_of(i);
    } else if (training_.workers) {
      use_started_workers();
    } else {
      start_seats(0, std::move(options));
    }
  }
  {
    std::lock_guard lock(watch_->mutex);
    watch_->events = &events_;
  }
  for (const Seat& seat : seats_) {
    if (seat.actor) watch(seat);
  }
  // From now on there may be more seats: for workers that were started before, this thread starts
  // the data readers.
  server_ = start_thread("the thread that hears a training group", [this] { serve(); });
}

void Group::use_started_workers() {
  GroupEntry entry = entry_;
  entry.driver.port = port_;
  const auto& actors = training_.workers->actors();
  for (Seat& seat : seats_) {
    seat.actor = actors[static_cast<size_t>(seat.rank)];
    seat.run = ObjectRef<void>(seat.actor.call<&Member::train>(entry, seat.rank).handle());
  }
}

void Group::start_thread_of(size_t seat) {
  std::packaged_task<void()> run([this, seat] { run_in_driver(seat); });
  seats_[seat].thread_ended = run.get_future();
  seats_[seat].thread = start_thread("a thread for the training loop", std::move(run));
}

void Group::run_in_driver(size_t number) {
  int rank = number == 0 ? 0 : kDataReader;
  Failed failed{plan_.attempt, {rank, ErrorKind::kIo, "", false}, {}};
  try {
    if (rank == kDataReader) return read_as_member(entry_, PlanBundle());
    become_ordinary_work();
    LoopResult result = train_as_member(entry_, rank);
    std::lock_guard lock(loop_.mutex);
    seats_[number].result = std::move(result);
    return;
  } catch (const Error& error) {
    failed.failure.kind = error.kind();
    failed.failure.message = error.what();
  } catch (const std::exception& error) {
    failed.failure.message = error.what();
  }
  events_.push(std::move(failed));
}

// Starts a data reader on each node that has workers. Readers hold no resources, so that they need
// not wait.
void Group::start_readers() {
  size_t first = seats_.size();
  std::vector<ActorOptions> options;
  for (const NodePart& part : parts_of_nodes()) {
    std::string name = entry_.driver.host.empty() ? "data-reader" : "data-reader-" + part.node.host;
    seats_.push_back({kDataReader, name, part.node.id});
    options.emplace_back().labels = {{"id", std::to_string(part.node.id)}};
  }
  start_seats(first, std::move(options));
  for (size_t i = first; i < seats_.size(); ++i) watch(seats_[i]);
}

void Group::start_seats(size_t first, std::vector<ActorOptions> options) {
  GroupEntry entry = entry_;
  entry.driver.port = port_;
  for (size_t i = 0; i < options.size(); ++i) {
    const std::string& name = seats_[first + i].name;
    options[i].process_name = ActiveRun::count() > 1 ? str(plan_.run_name, "/", name) : name;
    options[i].log_path = str(plan_.run_folder, "/logs/", name, ".log");
  }
  auto actors = actor_group<Member>(options);
  for (size_t i = 0; i < actors.size(); ++i) {
    Seat& seat = seats_[first + i];
    seat.actor = actors[i];
    if (seat.rank != kDataReader) {
      seat.run = ObjectRef<void>(seat.actor.call<&Member::train>(entry, seat.rank).handle());
      continue;
    }
    PlanBundle plans;
    if (seat.node != NodeId{0}) plans = PlanBundle(wire_plans());
    seat.run = seat.actor.call<&Member::read>(entry, plans);
  }
}

std::map<std::string, data::WirePlan> Group::wire_plans() const {
  std::map<std::string, data::WirePlan> plans;
  for (const auto& [name, dataset] : training_.datasets)
    plans[name] = data::WirePlan(*dataset.plan());
  return plans;
}

// A failure in a thread of the driver ends the attempt, not the program.
void Group::serve() {
  become_batch_work();
  Failure failure{kDriver, ErrorKind::kIo, "", false};
  try {
    hear();
    return;
  } catch (const Error& error) {
    failure.kind = error.kind();
    failure.message = error.what();
  } catch (const std::exception& error) {
    failure.message = error.what();
  }
  events_.push(Failed{plan_.attempt, std::move(failure)});
}

// Runs until the loop is stopped.
void Group::hear() {
  while (!loop_.context.stopped()) {
    auto nap = pace_.nap(Clock::now());
    if (nap.count() > 0) {
      std::this_thread::sleep_for(nap);
    } else {
      loop_.context.run_one();
    }
    loop_.context.poll();
  }
}

void Group::stop() {
  {
    std::lock_guard lock(loop_.mutex);
    if (stopping_) return;
    stopping_ = true;
  }
  loop_.context.stop();
  if (server_.joinable()) server_.join();
  disk_.stop();
  {
    std::lock_guard lock(watch_->mutex);
    watch_->events = nullptr;
  }
  local_listener_.reset();
  tls_listener_.reset();
  for (Seat& seat : seats_) {
    if (seat.channel) seat.channel->close();  // a data reader ends when its workers have gone
    seat.channel.reset();
  }
  join_threads();
  end_processes();
  if (!training_.results) return;
  training_.results->clear();
  for (Seat& seat : seats_) {
    if (seat.rank != kDataReader) training_.results->push_back(std::move(seat.result));
  }
}

// Threads have no deadline: a user may be looking at the loop in a debugger.
void Group::join_threads() {
  for (Seat& seat : seats_) {
    if (!seat.thread.joinable()) continue;
    if (seat.thread_ended.wait_for(kStopDeadline) != std::future_status::ready) {
      log_warning(str("the run is to end, but its ",
                      seat.rank == kDataReader ? "data reader" : "loop",
                      ", a thread of this process, goes on; it ends when it returns or calls a "
                      "function of manta::train"));
    }
    seat.thread.join();
  }
}

void Group::end_processes() {
  std::vector<ObjectRef<void>> runs, returning;
  for (const Seat& seat : seats_) {
    if (seat.run) runs.push_back(seat.run);
    if (seat.run && seat.finished && training_.workers) returning.push_back(seat.run);
  }
  if (runs.empty()) return;
  if (!returning.empty()) wait(returning, static_cast<int>(returning.size()), kReturnDeadline);
  auto [done, running] = wait(runs, static_cast<int>(runs.size()), std::chrono::seconds(0));
  bool all_returned = true;
  for (const Seat& seat : seats_) {
    bool is_running = std::find_if(running.begin(), running.end(), [&](const auto& ref) {
                        return ref.handle() == seat.run.handle();
                      }) != running.end();
    if (is_running) kill(seat.actor);
    if (seat.rank != kDataReader && (is_running || !seat.finished)) all_returned = false;
  }
  auto [ended, left] = wait(runs, static_cast<int>(runs.size()), kStopDeadline);
  if (!left.empty()) warn_of_those_left(left);
  for (Seat& seat : seats_) {
    try {
      take_result(seat);
    } catch (const Error&) {  // it was killed, or its failure is already known
      if (seat.rank != kDataReader) all_returned = false;
    }
  }
  if (training_.workers && !all_returned) training_.workers->drop();
  for (Seat& seat : seats_) seat.actor = {};
}

void Group::take_result(Seat& seat) {
  if (!seat.run) return;
  if (seat.rank == kDataReader || !training_.results) return get(seat.run, std::chrono::seconds(0));
  seat.result = ObjectRef<LoopResult>(seat.run.handle()).get(std::chrono::seconds(0));
}

void Group::warn_of_those_left(const std::vector<ObjectRef<void>>& left) const {
  std::string names;
  for (const auto& ref : left) {
    auto place = std::find_if(seats_.begin(), seats_.end(),
                              [&](const auto& seat) { return seat.run.handle() == ref.handle(); });
    names += str(names.empty() ? "" : ", ", place->name);
  }
  log_warning(str("of attempt ", plan_.attempt, ", these processes have not ended ",
                  kStopDeadline.count(), " s after they were killed: ", names,
                  "; what they hold, such as CPUs and memory, is not free"));
}

void Group::acknowledge(int64_t index, bool committed) {
  std::lock_guard lock(loop_.mutex);
  for (Seat& seat : seats_) {
    if (seat.rank != kDataReader) send(seat, Acknowledged{index, committed});
  }
}

void Group::tell_of_writing() {
  std::lock_guard lock(loop_.mutex);
  pass_on_writing();
}

void Group::ask_to_stop() {
  std::lock_guard lock(loop_.mutex);
  wants_asks_ = true;
  for (const NodePart& part : parts_) {
    if (!part.listens) continue;  // they are asked when they listen
    for (size_t seat : part.workers) send(seats_[seat], WantAsks{});
  }
}

void Group::stop_from(int64_t ask) {
  std::lock_guard lock(loop_.mutex);
  for (Seat& seat : seats_) {
    if (seat.rank != kDataReader) send(seat, StopFrom{ask});
  }
}

std::string Group::why_waits() {
  std::unique_lock lock(loop_.mutex);
  auto run = seats_.front().run;
  lock.unlock();
  if (!run) return "";
  return manta::why_waits(run);
}

std::string Group::draining_node() {
  if (entry_.driver.host.empty()) return "";  // there is only one machine
  std::lock_guard lock(loop_.mutex);
  for (const Node& node : nodes()) {
    bool is_used = std::any_of(parts_.begin(), parts_.end(),
                               [&](const NodePart& part) { return part.node.id == node.id; });
    if (is_used && node.state == NodeState::kDraining) return node.host;
  }
  return "";
}

void Group::watch(const Seat& seat) {
  on_ready(seat.run, [watch = watch_, run = seat.run, rank = seat.rank, attempt = plan_.attempt] {
    std::lock_guard lock(watch->mutex);
    if (!watch->events) return;
    try {
      get(run, std::chrono::seconds(0));
    } catch (const Error& error) {
      watch->events->push(Failed{attempt, {rank, error.kind(), how_it_ended(error), false}, {}});
    }
  });
}

// ---- When all are there

std::vector<Group::NodePart> Group::parts_of_nodes() const {
  std::map<NodeId, Node> known;
  for (const Node& node : nodes()) known[node.id] = node;
  std::vector<NodePart> parts;
  for (size_t i = 0; i < seats_.size(); ++i) {
    const Seat& seat = seats_[i];
    NodeId id = seat.node ? *seat.node : seat.joined->node;
    auto part = std::find_if(parts.begin(), parts.end(),
                             [&](const NodePart& each) { return each.node.id == id; });
    if (part == parts.end()) {
      if (!known.contains(id)) {
        throw Error(ErrorKind::kWorkerLost,
                    str(seat.name, " is on a node that has gone meanwhile"));
      }
      part = parts.insert(parts.end(), NodePart{known.at(id), {}, {}, {}, id == 0});
    }
    if (seat.rank == kDataReader) {
      part->reader = i;
    } else {
      part->workers.push_back(i);
    }
  }
  return parts;
}

// The address as the driver sees it.
std::string Group::address_of(const NodePart& part, const Seat& seat) const {
  return part.node.id == 0 ? entry_.driver.host : parse_address(seat.channel->peer()).host;
}

Place Group::place_of(const NodePart& part, size_t local_rank) const {
  Place place;
  place.local_rank = static_cast<int32_t>(local_rank);
  place.local_size = static_cast<int32_t>(part.workers.size());
  place.node_rank = static_cast<int32_t>(&part - parts_.data());
  place.num_nodes = static_cast<int32_t>(parts_.size());
  place.node = part.node.host;
  place.node_ranks.resize(static_cast<size_t>(training_.scaling.num_workers));
  for (size_t i = 0; i < parts_.size(); ++i) {
    for (size_t seat : parts_[i].workers) place.node_ranks[seat] = static_cast<int32_t>(i);
  }
  if (parts_.size() > 1) place.address = address_of(part, seats_[part.workers[local_rank]]);
  place.shared_memory = std::all_of(parts_.begin(), parts_.end(), [&](const NodePart& each) {
    return each.workers.size() <= static_cast<size_t>(training_.max_in_shared_memory);
  });
  if (part.node.id != 0)
    place.meeting = std::filesystem::path(entry_.driver.socket).filename();  // this group's alone
  place.meets_reader = !training_.datasets.empty();
  place.shares_folder = seats_[part.workers.front()].joined->shares_folder;
  return place;
}

BeginTraining Group::training_message(const NodePart& part, size_t local_rank) {
  BeginTraining message;
  message.attempt = plan_.attempt;
  message.rank = seats_[part.workers[local_rank]].rank;
  message.world_size = training_.scaling.num_workers;
  message.run_name = plan_.run_name;
  message.run_folder = plan_.run_folder;
  message.loop = training_.loop;
  message.loop_takes_config = training_.loop_takes_config;
  message.config = training_.config;
  message.framework = training_.framework;
  message.prepare_worker = training_.prepare_worker;
  message.next_report = plan_.next_report;
  message.checkpoint = plan_.checkpoint;
  for (const auto& [name, dataset] : training_.datasets) {
    auto from = plan_.positions.find(name);
    message.datasets[name] = from == plan_.positions.end() ? data::Position() : from->second;
    if (auto epochs = data::epochs_of(*dataset.plan())) message.epochs[name] = *epochs;
  }
  message.timeout_ms = training_.run.collective_timeout.count();
  message.max_in_flight = training_.run.checkpoint_config.max_in_flight;
  message.place = place_of(part, local_rank);
  Place& place = message.place;
  bool is_below = (plan_.checkpoint + "/").starts_with(plan_.run_folder + "/");
  place.shares_checkpoint = part.node.id == 0 || (place.shares_folder && is_below);
  if (!plan_.checkpoint.empty() && !place.shares_checkpoint && place.local_rank == 0) {
    message.checkpoint_files = files_to_fetch(Checkpoint::open(plan_.checkpoint));
    fetchable_.insert(message.checkpoint_files.begin(), message.checkpoint_files.end());
  }
  return message;
}

BeginReading Group::reading_message(const NodePart& part) const {
  BeginReading reading;
  reading.timeout_ms = training_.run.collective_timeout.count();
  reading.meeting = place_of(part, 0).meeting;
  reading.peers = peers_of_reader(part);
  return reading;
}

ReaderPeers Group::peers_of_reader(const NodePart& part) const {
  ReaderPeers peers;
  if (parts_.size() < 2 || !part.reader || !seats_[*part.reader].channel ||
      training_.scaling.split_reading == SplitReading::kNever) {
    return peers;
  }
  peers.node_rank = static_cast<int32_t>(&part - parts_.data());
  peers.address = address_of(part, seats_[*part.reader]);
  for (const NodePart& each : parts_) peers.hosts.push_back(each.node.host);
  peers.node_ranks = place_of(part, 0).node_ranks;
  peers.always = training_.scaling.split_reading == SplitReading::kAlways;
  return peers;
}

void Group::begin() {
  parts_ = parts_of_nodes();
  for (NodePart& part : parts_) {
    if (part.node.id == 0) {
      begin_on_driver(part);
    } else {
      begin_elsewhere(part);
    }
  }
  events_.push(GroupStarted{plan_.attempt});
}

void Group::begin_on_driver(const NodePart& part) {
  BeginReading reading = reading_message(part);
  if (part.reader) reading.plans = wire_plans();
  SharedFd region;
  if (part.workers.size() > 1 && place_of(part, 0).shared_memory)
    region = SharedFd(create_shm_region(static_cast<int>(part.workers.size())));
  for (size_t i = 0; i < part.workers.size(); ++i) {
    BeginTraining message = training_message(part, i);
    message.region = region;
    if (part.reader) {
      auto [worker_end, reader_end] = socket_pair();
      message.feed = SharedFd(std::move(worker_end));
      reading.workers.push_back(SharedFd(std::move(reader_end)));
    }
    send(seats_[part.workers[i]], message);
  }
  if (part.reader) send(seats_[*part.reader], reading);
}

// The others follow when the first worker says that it is ready for them.
void Group::begin_elsewhere(NodePart& part) {
  part.not_begun.assign(part.workers.begin() + 1, part.workers.end());
  if (part.reader) part.not_begun.push_back(*part.reader);
  send(seats_[part.workers.front()], training_message(part, 0));
}

bool Group::all_joined() const {
  return std::all_of(seats_.begin(), seats_.end(), [](const Seat& seat) { return seat.joined; });
}

}  // namespace manta::train
